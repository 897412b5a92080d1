/* Creates, writes and closes files, with the calls of `landau run files` or with those of fs_mark.
 *
 * Usage: create PROCESSOR DIRECTORY COUNT SIZE landau|fs_mark. The directory is relative to the current one. With
 * `landau`: O_WRONLY|O_EXCL and sequential names below an open directory. With `fs_mark`: O_RDWR|O_TRUNC, a path of two
 * components, random names, and an untimed mkdir before each file. Names have 13 characters in both cases. Prints the
 * elapsed time of the three calls in nanoseconds per file. Does not remove the files.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

static void check(int is_good, const char *call)
{
    if (!is_good) {
        perror(call);
        exit(1);
    }
}

static long long now_ns(void)
{
    struct timespec now;
    check(clock_gettime(CLOCK_MONOTONIC, &now) == 0, "clock_gettime");
    return now.tv_sec * 1000000000LL + now.tv_nsec;
}

int main(int argc, char **argv)
{
    if (argc != 6) {
        fprintf(stderr, "usage: create PROCESSOR DIRECTORY COUNT SIZE landau|fs_mark\n");
        return 2;
    }
    cpu_set_t set;
    CPU_ZERO(&set);
    CPU_SET(atoi(argv[1]), &set);
    check(sched_setaffinity(0, sizeof set, &set) == 0, "sched_setaffinity");
    const char *directory = argv[2];
    int open_directory = open(directory, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    check(open_directory >= 0, directory);
    int count = atoi(argv[3]), is_mark = strcmp(argv[5], "fs_mark") == 0;
    ssize_t size = atol(argv[4]);
    if (count < 1 || size < (ssize_t)sizeof(int)) {
        fprintf(stderr, "create: COUNT must be at least 1 and SIZE at least %zu\n", sizeof(int));
        return 2;
    }
    char *content = malloc(size), name[32], path[512];
    check(content != NULL, "malloc");
    memset(content, 7, size);
    static const char letters[] = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";

    long long elapsed_ns = 0;
    for (int n = 1; n <= count; n++) {
        *(int *)content = n;
        if (is_mark) {
            int used = snprintf(name, sizeof name, "6b03bfcd");
            for (int i = 0; i < 5; i++)
                name[used++] = letters[random() % 62];
            name[used] = 0;
            snprintf(path, sizeof path, "%s//%s", directory, name);
            mkdir(directory, 0777);
        } else {
            snprintf(name, sizeof name, "file-%08d", n);
        }
        long long began_ns = now_ns();
        int file = is_mark ? open(path, O_RDWR | O_CREAT | O_TRUNC, 0666)
                           : openat(open_directory, name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
        check(file >= 0, "open");
        check(write(file, content, size) == size, "write");
        check(close(file) == 0, "close");
        elapsed_ns += now_ns() - began_ns;
    }
    printf("%lld\n", elapsed_ns / count);
    return 0;
}
