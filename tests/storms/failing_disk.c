/* Makes calls on the files below a folder fail, as on a failing or full disk.

   Loaded with LD_PRELOAD. The folder is given by DISK_FAULTS_FOLDER. Nothing fails until
   disk_faults_arm was called, so that a program can start first. */

#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <limits.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/types.h>
#include <unistd.h>

enum kind { WRITE, SYNC, TRUNCATE, READ, KINDS };
enum fault { NONE, FAIL, SHORT };

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static long mean_gap, left, calls[KINDS], count[KINDS];
static enum kind wanted;
static unsigned long state;

/* Most calls are reads, and most that matter are not. */
static const enum kind drawn_kinds[] = {WRITE, WRITE, WRITE, SYNC, SYNC, SYNC, TRUNCATE, READ};

static unsigned long drawn(unsigned long below) {
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    return state % below;
}

static void plan(long gap) {
    left = 1 + (long)drawn(2 * gap);
    do wanted = drawn_kinds[drawn(sizeof drawn_kinds / sizeof *drawn_kinds)];
    while (!calls[wanted] && calls[READ]);
}

/* Let a call fail after `gap` others on average; none if it is 0. */
void disk_faults_arm(long gap, unsigned long seed) {
    pthread_mutex_lock(&mutex);
    state = seed * 0x9E3779B97F4A7C15UL + 1;
    mean_gap = gap;
    if (gap) plan(gap);
    pthread_mutex_unlock(&mutex);
}

/* Return how many calls of a kind have failed. */
long disk_faults_count(int kind) { return count[kind]; }

static int is_below_folder(int fd) {
    static const char *folder;
    char link[64], path[PATH_MAX];
    ssize_t length;
    size_t prefix;
    if (!folder && !(folder = getenv("DISK_FAULTS_FOLDER"))) return 0;
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    length = readlink(link, path, sizeof path - 1);
    if (length < 0) return 0;
    path[length] = 0;
    prefix = strlen(folder);
    return !strncmp(path, folder, prefix) && path[prefix] == '/';
}

/* Return what happens to a call, and set errno if it fails. */
static enum fault fault_of(enum kind kind, int fd) {
    enum fault fault = NONE;
    int before = errno, error = 0;
    if (!mean_gap || !is_below_folder(fd)) {
        errno = before;
        return NONE;
    }
    pthread_mutex_lock(&mutex);
    calls[kind]++;
    /* A kind that is not called for long leaves its turn to any other. */
    if (mean_gap && --left <= 0 && (kind == wanted || left < -20 * mean_gap)) {
        plan(drawn(4) ? mean_gap : 1); /* a disk that has failed often fails again at once */
        count[kind]++;
        fault = kind == WRITE && !drawn(3) ? SHORT : FAIL;
        error = kind != READ && drawn(2) ? ENOSPC : EIO;
    }
    pthread_mutex_unlock(&mutex);
    errno = fault == FAIL ? error : before;
    return fault;
}

/* Declare `real`, the function of the C library that is called otherwise. */
#define REAL(type, name, parameters) \
    static type (*real) parameters; \
    if (!real) *(void **)&real = dlsym(RTLD_NEXT, #name)

#define WRITING(name, parameters, arguments) \
    ssize_t name parameters { \
        REAL(ssize_t, name, parameters); \
        enum fault fault = fault_of(WRITE, fd); \
        if (fault == FAIL) return -1; \
        if (fault == SHORT && size > 1) size /= 2; \
        return real arguments; \
    }

#define READING(name, parameters, arguments) \
    ssize_t name parameters { \
        REAL(ssize_t, name, parameters); \
        return fault_of(READ, fd) == NONE ? real arguments : -1; \
    }

#define OTHER(name, kind, parameters, arguments) \
    int name parameters { \
        REAL(int, name, parameters); \
        return fault_of(kind, fd) == NONE ? real arguments : -1; \
    }

WRITING(write, (int fd, const void *data, size_t size), (fd, data, size))
WRITING(pwrite, (int fd, const void *data, size_t size, off_t at), (fd, data, size, at))
WRITING(pwrite64, (int fd, const void *data, size_t size, off64_t at), (fd, data, size, at))
READING(read, (int fd, void *data, size_t size), (fd, data, size))
READING(pread, (int fd, void *data, size_t size, off_t at), (fd, data, size, at))
READING(pread64, (int fd, void *data, size_t size, off64_t at), (fd, data, size, at))
OTHER(fsync, SYNC, (int fd), (fd))
OTHER(fdatasync, SYNC, (int fd), (fd))
OTHER(ftruncate, TRUNCATE, (int fd, off_t size), (fd, size))
OTHER(ftruncate64, TRUNCATE, (int fd, off64_t size), (fd, size))
