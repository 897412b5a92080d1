/* Creates, writes, looks up, reads back and removes files in a plain loop, without timing single calls.
 *
 * Usage: files PROCESSOR DIRECTORY COUNT SIZE. The calls, their flags and their order are those of `landau run files`
 * with files.order=file. So is the work between two files: the program makes a name, and changes and compares the
 * content. Prints the processor time of all calls except the removal, in nanoseconds per file.
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

static long long processor_ns(void)
{
    struct timespec now;
    check(clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now) == 0, "clock_gettime");
    return now.tv_sec * 1000000000LL + now.tv_nsec;
}

int main(int argc, char **argv)
{
    if (argc != 5) {
        fprintf(stderr, "usage: files PROCESSOR DIRECTORY COUNT SIZE\n");
        return 2;
    }
    cpu_set_t set;
    CPU_ZERO(&set);
    CPU_SET(atoi(argv[1]), &set);
    check(sched_setaffinity(0, sizeof set, &set) == 0, "sched_setaffinity");
    int directory = open(argv[2], O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    check(directory >= 0, argv[2]);
    int count = atoi(argv[3]);
    ssize_t size = atol(argv[4]);
    char *content = malloc(size), *buffer = malloc(size), name[32];
    check(content && buffer, "malloc");
    for (ssize_t i = 0; i < size; i++)
        content[i] = (char)(i * 7), buffer[i] = 0;

    long long used_ns = 0;
    for (int n = 1; n <= count; n++) {
        snprintf(name, sizeof name, "file-%08d", n);
        *(int *)content = n;
        long long began_ns = processor_ns();
        int file = openat(directory, name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
        check(file >= 0, "open");
        check(write(file, content, size) == size, "write");
        check(close(file) == 0, "close");
        struct stat found;
        check(fstatat(directory, name, &found, 0) == 0 && found.st_size == size, "stat");
        file = openat(directory, name, O_RDONLY | O_CLOEXEC);
        check(file >= 0, "open");
        check(read(file, buffer, size) == size, "read");
        close(file);
        used_ns += processor_ns() - began_ns;
        check(memcmp(buffer, content, size) == 0, "compare");
        buffer[0] = ~buffer[0];
    }
    printf("%lld\n", used_ns / count);
    for (int n = count; n >= 1; n--) {
        snprintf(name, sizeof name, "file-%08d", n);
        check(unlinkat(directory, name, 0) == 0, "unlink");
    }
    return 0;
}
