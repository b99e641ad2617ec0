/* Preloaded into a child: after each sync it appends the file's path and its size to the file SYNC_LOG names. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

static int synced(const char *name, int fd) {
    int (*real)(int) = (int (*)(int))dlsym(RTLD_NEXT, name);
    char link[64], path[4096];
    struct stat at;
    fstat(fd, &at);
    int result = real(fd);
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    ssize_t length = readlink(link, path, sizeof path - 1);
    path[length < 0 ? 0 : length] = '\0';
    int log = open(getenv("SYNC_LOG"), O_WRONLY | O_APPEND | O_CREAT, 0644);
    dprintf(log, "%lld %s\n", (long long)at.st_size, path);
    close(log);
    return result;
}

int fsync(int fd) { return synced("fsync", fd); }
int fdatasync(int fd) { return synced("fdatasync", fd); }
