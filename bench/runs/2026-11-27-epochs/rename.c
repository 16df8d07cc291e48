// rename DIR FILES MODE BATCH THREADS: makes, writes and dates files of 4 KiB in a new directory DIR,
// whose parent is on the file system to be measured, by the ways in which a mover can do it, with a
// syncfs(2) at the end of each batch and at the end.
//   f  final names at once; nothing is renamed
//   t  temporary names of 42 bytes beside the final ones; each batch is renamed after its sync
//   d  short names in one other directory, renamed into DIR
//   e  the same, with one other directory for each thread
//   l  files without a name (O_TMPFILE), linked after the sync
// Prints wall time, busy time of all processors a file, and the share of the renames.
#define _GNU_SOURCE
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

static char mode, buffer[4096];
static int dir, others[4], threads, from, to, descriptors[200000];

static double busy(void) {
    unsigned long long t[7];
    FILE *file = fopen("/proc/stat", "r");
    fscanf(file, "cpu %llu %llu %llu %llu %llu %llu %llu", t, t + 1, t + 2, t + 3, t + 4, t + 5, t + 6);
    fclose(file);
    return (t[0] + t[1] + t[2] + t[5] + t[6]) / 100.0;
}

static double now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec + t.tv_nsec / 1e9;
}

static double own(void) {
    struct rusage u;
    getrusage(RUSAGE_SELF, &u);
    return u.ru_utime.tv_sec + u.ru_stime.tv_sec + (u.ru_utime.tv_usec + u.ru_stime.tv_usec) / 1e6;
}

static void place(int file, int thread, int *at, char *name) {
    *at = dir;
    if (mode == 'f') sprintf(name, "f%06d", file);
    if (mode == 't') sprintf(name, ".penstock-%016x%016x", file * 2654435761u, file);
    if (mode == 'd' || mode == 'e') sprintf(name, "%06d", file), *at = others[mode == 'e' ? thread : 0];
}

static void *make(void *argument) {
    long thread = (long)argument;
    struct timespec times[2] = {{1000000000, 0}, {1000000000, 5}};
    for (int file = from + thread; file < to; file += threads) {
        int at, fd;
        char name[80];
        place(file, thread, &at, name);
        if (mode == 'l') fd = descriptors[file] = openat(dir, ".", O_TMPFILE | O_WRONLY, 0644);
        else fd = openat(at, name, O_CREAT | O_EXCL | O_WRONLY, 0644);
        if (fd < 0 || pwrite(fd, buffer, sizeof buffer, 0) != sizeof buffer) perror(name), exit(1);
        futimens(fd, times);
        if (mode != 'l') close(fd);
    }
    return 0;
}

int main(int count, char **given) {
    if (count != 6) return 2;
    int files = atoi(given[2]), batch = atoi(given[4]);
    char path[4096];
    mode = given[3][0], threads = atoi(given[5]);
    mkdir(given[1], 0755);
    for (int k = 0; k < threads; k++) {
        snprintf(path, sizeof path, "%s/../other%d", given[1], k);
        mkdir(path, 0755);
        others[k] = open(path, O_DIRECTORY | O_RDONLY);
    }
    dir = open(given[1], O_DIRECTORY | O_RDONLY);
    double began = now(), busy_before = busy(), own_before = own(), renaming = 0, syncing = 0;
    for (from = 0; from < files; from = to) {
        pthread_t started[4];
        to = from + batch < files ? from + batch : files;
        for (long k = 1; k < threads; k++) pthread_create(&started[k], 0, make, (void *)k);
        make(0);
        for (int k = 1; k < threads; k++) pthread_join(started[k], 0);
        double at = now();
        syncfs(dir);
        syncing += now() - at, at = own();
        for (int file = from; file < to && mode != 'f'; file++) {
            int where;
            char name[80], final[80];
            sprintf(final, "f%06d", file);
            place(file, (file - from) % threads, &where, name);
            int failed = mode == 'l' ? linkat(descriptors[file], "", dir, final, AT_EMPTY_PATH)
                                     : renameat2(where, name, dir, final, RENAME_NOREPLACE);
            if (failed) perror(final), exit(1);
            if (mode == 'l') close(descriptors[file]);
        }
        renaming += own() - at;
    }
    double at = now();
    syncfs(dir);
    syncing += now() - at;
    printf("%c batch %d threads %d: %.2f s, busy %.1f us a file, own %.1f, renames %.1f, syncs %.2f s\n",
           mode, batch, threads, now() - began, (busy() - busy_before) / files * 1e6,
           (own() - own_before) / files * 1e6, renaming / files * 1e6, syncing);
    return 0;
}
