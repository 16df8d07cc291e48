// Ways of making small files and giving them their names, by themselves: CPU and wall per file.
//   cc -O2 -pthread pub.c -o pub; pub HOW FILES BATCH DIRECTORY THREADS
// HOW: 0 temporary name and rename; 1 O_TMPFILE and linkat(AT_EMPTY_PATH); 2 the same by /proc.
#define _GNU_SOURCE
#include <fcntl.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

static int how, files, batch;
static const char *directory;
static char bytes[4096];

static double cpu(void) {
    struct rusage used;
    getrusage(RUSAGE_SELF, &used);
    return used.ru_utime.tv_sec + used.ru_stime.tv_sec
        + (used.ru_utime.tv_usec + used.ru_stime.tv_usec) / 1e6;
}

static double now(void) {
    struct timespec at;
    clock_gettime(CLOCK_MONOTONIC, &at);
    return at.tv_sec + at.tv_nsec / 1e9;
}

static void must(int outcome, const char *what) {
    if (outcome < 0) {
        perror(what);
        exit(1);
    }
}

static void fill(int file) {
    struct timespec times[2] = {{0, UTIME_OMIT}, {5, 6}};
    must(pwrite(file, bytes, sizeof bytes, 0), "pwrite");
    must(futimens(file, times), "futimens");
}

static void temporary(char *name, int at) {
    sprintf(name, ".pst-%026llu", (unsigned long long)(at * UINT64_C(0x9E3779B97F4A7C15)));
}

static int make(int dir, int at) {
    char name[64];
    int file;
    temporary(name, at);
    if (how == 0)
        file = openat(dir, name, O_WRONLY | O_CREAT | O_EXCL, 0644);
    else
        file = openat(dir, ".", O_WRONLY | O_TMPFILE, 0644);
    must(file, "open");
    fill(file);
    if (how == 0)
        close(file);
    return file;
}

static void name_it(int dir, int file, int at) {
    char from[64], to[64];
    sprintf(to, "file-%07d", at);
    if (how == 0) {
        temporary(from, at);
        must(renameat(dir, from, dir, to), "rename");
        return;
    }
    sprintf(from, "/proc/self/fd/%d", file);
    if (how == 1)
        must(linkat(file, "", dir, to, AT_EMPTY_PATH), "link");
    else
        must(linkat(AT_FDCWD, from, dir, to, AT_SYMLINK_FOLLOW), "link");
    close(file);
}

static void *work(void *half) {
    int first = (int)(long)half * (files / 2), end = first + files / 2;
    int *made = malloc(batch * sizeof *made);
    int dir = open(directory, O_RDONLY | O_DIRECTORY);
    must(dir, directory);
    for (int begin = first; begin < end; begin += batch) {
        int until = begin + batch < end ? begin + batch : end;
        for (int at = begin; at < until; at++)
            made[at - begin] = make(dir, at);
        for (int at = begin; at < until; at++)
            name_it(dir, made[at - begin], at);
    }
    free(made);
    return NULL;
}

int main(int count, char **words) {
    pthread_t threads[2];
    if (count != 6)
        return 2;
    how = atoi(words[1]), files = atoi(words[2]), batch = atoi(words[3]);
    directory = words[4];
    mkdir(directory, 0755);
    double begun = now(), before = cpu();
    for (long half = 0; half < 2; half++) {
        pthread_create(&threads[half], NULL, work, (void *)half);
        if (atoi(words[5]) == 1)
            pthread_join(threads[half], NULL);
    }
    if (atoi(words[5]) != 1)
        for (int half = 0; half < 2; half++)
            pthread_join(threads[half], NULL);
    printf("how %d, batch %d, %s threads: CPU %.2f us, wall %.2f us\n", how, batch, words[5],
           (cpu() - before) / files * 1e6, (now() - begun) / files * 1e6);
}
