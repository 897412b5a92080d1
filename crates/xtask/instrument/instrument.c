/* The plain program that `cargo xtask bench instrument` compares with Landau. It makes the same calls at the same sizes
 * and times each with a pair of clock_gettime, in the simplest loop that does so. It contains no code of Landau.
 *
 *   instrument PROCESSOR FOLDER getppid N | socket N | bind N | mmap N
 *
 * It prints one line for each timed call: the phase and the nanoseconds. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <netinet/in.h>
#include <sched.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#define FILE_BYTES (200l << 20)

static uint64_t *samples[2];

static void must(int holds, const char *what) {
  if (!holds) {
    perror(what);
    exit(2);
  }
}

static inline uint64_t now(void) {
  struct timespec time;
  clock_gettime(CLOCK_MONOTONIC, &time);
  return (uint64_t)time.tv_sec * 1000000000u + (uint64_t)time.tv_nsec;
}

/* Allocates the memory for the samples. It is touched, and locked if that is allowed, before the first call. It is a
 * separate mapping, as in Landau: locking a part of the heap makes every later mmap 4% more expensive (measured on
 * Linux 6.18). */
static void prepare(long n) {
  for (int lane = 0; lane < 2; lane++) {
    size_t bytes = (size_t)n * sizeof *samples[lane];
    samples[lane] = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    must(samples[lane] != MAP_FAILED, "mmap of the samples");
    memset(samples[lane], 1, bytes);
    mlock(samples[lane], bytes);
  }
}

static void print(const char *phase, int lane, long n) {
  for (long i = 0; i < n; i++) printf("%s %llu\n", phase, (unsigned long long)samples[lane][i]);
}

static void time_getppid(long n) {
  pid_t parent = getppid();
  for (long i = 0; i < n; i++) {
    uint64_t start = now();
    pid_t found = getppid();
    uint64_t end = now();
    must(found == parent, "getppid");
    samples[0][i] = end - start;
  }
  print("getppid", 0, n);
}

static void time_socket(long n, int binds) {
  struct sockaddr_in any = {.sin_family = AF_INET};
  for (long i = 0; i < n; i++) {
    uint64_t start = now();
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    uint64_t end = now();
    must(fd >= 0, "socket");
    samples[0][i] = end - start;
    if (!binds) continue;
    start = now();
    int result = bind(fd, (struct sockaddr *)&any, sizeof any);
    end = now();
    must(result == 0, "bind");
    samples[1][i] = end - start;
  }
  if (binds) print("bind", 1, n);
  else print("socket", 0, n);
}

/* Creates a file whose pages are in the page cache. The first byte of each page depends on the page's index. */
static int file_in(const char *folder, long page) {
  char path[4096];
  snprintf(path, sizeof path, "%s/instrument-file", folder);
  int fd = open(path, O_RDWR | O_CREAT | O_TRUNC, 0600);
  must(fd >= 0, path);
  long chunk = 1 << 20;
  char *buffer = calloc(1, (size_t)chunk);
  must(buffer != NULL, "calloc");
  for (long at = 0; at < FILE_BYTES; at += chunk) {
    for (long i = 0; i < chunk; i += page) buffer[i] = (char)((at + i) / page % 251 + 1);
    must(write(fd, buffer, (size_t)chunk) == chunk, "write");
  }
  free(buffer);
  close(fd);
  fd = open(path, O_RDONLY);
  must(fd >= 0 && unlink(path) == 0, path);
  return fd;
}

static void time_mmap(long n, const char *folder) {
  long page = sysconf(_SC_PAGESIZE);
  int fd = file_in(folder, page);
  for (long i = 0; i < n; i++) {
    long index = 2 * i % (FILE_BYTES / page / 2 * 2);
    uint64_t start = now();
    volatile char *at = mmap(NULL, (size_t)page, PROT_READ, MAP_SHARED, fd, index * page);
    uint64_t end = now();
    must(at != MAP_FAILED, "mmap");
    samples[0][i] = end - start;
    start = now();
    char byte = *at;
    end = now();
    must(byte == (char)(index % 251 + 1), "the page's byte");
    samples[1][i] = end - start;
  }
  print("mmap", 0, n);
  print("touch", 1, n);
}

int main(int argc, char **argv) {
  if (argc != 5) return 2;
  cpu_set_t set;
  CPU_ZERO(&set);
  CPU_SET(atoi(argv[1]), &set);
  must(sched_setaffinity(0, sizeof set, &set) == 0, "sched_setaffinity");
  struct rlimit limit;
  must(getrlimit(RLIMIT_NOFILE, &limit) == 0, "getrlimit");
  limit.rlim_cur = limit.rlim_max;
  must(setrlimit(RLIMIT_NOFILE, &limit) == 0, "setrlimit");
  long n = atol(argv[4]);
  prepare(n);
  if (!strcmp(argv[3], "getppid")) time_getppid(n);
  else if (!strcmp(argv[3], "socket")) time_socket(n, 0);
  else if (!strcmp(argv[3], "bind")) time_socket(n, 1);
  else if (!strcmp(argv[3], "mmap")) time_mmap(n, argv[2]);
  else return 2;
  return 0;
}
