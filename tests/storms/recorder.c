/* Records each change of the files below a folder, in its order, for a replay up to a power cut.

   Loaded with LD_PRELOAD. The folder is given by POWER_CUTS_FOLDER, the record by POWER_CUTS_RECORD.
   A record is a head, a path and data: see `Head`. */

#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/types.h>
#include <unistd.h>

enum kind { WRITE, SYNC, TRUNCATE, UNLINK, MOVE, NOTE };

struct Head {
    uint32_t kind, path;  /* the length of the path */
    int64_t offset, size; /* where it is written, and how many bytes of data follow */
};

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;

#define REAL(type, name, parameters) \
    static type (*real) parameters; \
    if (!real) *(void **)&real = dlsym(RTLD_NEXT, #name)

static void put(const void *data, size_t size) {
    static int record = -1;
    REAL(ssize_t, write, (int, const void *, size_t));
    if (record < 0) record = open(getenv("POWER_CUTS_RECORD"), O_WRONLY | O_CREAT | O_APPEND, 0600);
    while (size) {
        ssize_t done = real(record, data, size);
        if (done <= 0) abort();
        data = (const char *)data + done;
        size -= (size_t)done;
    }
}

static void note(enum kind kind, const char *path, int64_t offset, const void *data, int64_t size) {
    struct Head head = {kind, (uint32_t)strlen(path), offset, size};
    put(&head, sizeof head);
    put(path, head.path);
    if (data) put(data, (size_t)size);
}

static int is_below(const char *path) {
    const char *folder = getenv("POWER_CUTS_FOLDER");
    return folder && !strncmp(path, folder, strlen(folder)) && path[strlen(folder)] == '/';
}

/* Write the path of a descriptor, and return whether it is below the folder. */
static int is_watched(int fd, char *path) {
    char link[64];
    ssize_t length;
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    length = readlink(link, path, PATH_MAX - 1);
    if (length < 0) return 0;
    path[length] = 0;
    return is_below(path);
}

/* Called by the worker: what it says is in order with its writes. */
void power_cuts_note(const char *text) {
    pthread_mutex_lock(&mutex);
    note(NOTE, "", 0, text, (int64_t)strlen(text));
    pthread_mutex_unlock(&mutex);
}

#define WATCHED(type, call, noted) \
    char path[PATH_MAX]; \
    type result; \
    if (!is_watched(fd, path)) return call; \
    pthread_mutex_lock(&mutex); \
    result = call; \
    if (result >= 0) noted; \
    pthread_mutex_unlock(&mutex); \
    return result

ssize_t write(int fd, const void *data, size_t size) {
    REAL(ssize_t, write, (int, const void *, size_t));
    WATCHED(ssize_t, real(fd, data, size),
            note(WRITE, path, lseek(fd, 0, SEEK_CUR) - result, data, result));
}

#define PWRITE(name, offset) \
    ssize_t name(int fd, const void *data, size_t size, offset at) { \
        REAL(ssize_t, name, (int, const void *, size_t, offset)); \
        WATCHED(ssize_t, real(fd, data, size, at), note(WRITE, path, at, data, result)); \
    }
PWRITE(pwrite, off_t)
PWRITE(pwrite64, off64_t)

#define FLUSH(name) \
    int name(int fd) { \
        REAL(int, name, (int)); \
        WATCHED(int, real(fd), note(SYNC, path, 0, NULL, 0)); \
    }
FLUSH(fsync)
FLUSH(fdatasync)

#define CUT(name, offset) \
    int name(int fd, offset size) { \
        REAL(int, name, (int, offset)); \
        WATCHED(int, real(fd, size), note(TRUNCATE, path, size, NULL, 0)); \
    }
CUT(ftruncate, off_t)
CUT(ftruncate64, off64_t)

int unlink(const char *path) {
    REAL(int, unlink, (const char *));
    int result;
    pthread_mutex_lock(&mutex);
    result = real(path);
    if (!result && is_below(path)) note(UNLINK, path, 0, NULL, 0);
    pthread_mutex_unlock(&mutex);
    return result;
}

/* A new name, which the old one may outlive. */
#define MOVING(name, parameters, arguments) \
    int name parameters { \
        REAL(int, name, parameters); \
        int result; \
        pthread_mutex_lock(&mutex); \
        result = real arguments; \
        if (!result && is_below(from)) note(MOVE, from, 0, to, (int64_t)strlen(to)); \
        pthread_mutex_unlock(&mutex); \
        return result; \
    }
MOVING(rename, (const char *from, const char *to), (from, to))
MOVING(link, (const char *from, const char *to), (from, to))
MOVING(renameat, (int a, const char *from, int b, const char *to), (a, from, b, to))
MOVING(linkat, (int a, const char *from, int b, const char *to, int how), (a, from, b, to, how))
