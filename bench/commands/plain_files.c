// The plainest program that leaves small files durable: each thread makes, writes and closes files
// in directories of its own, and one syncfs(2) ends it. Prints files and seconds as JSON.
//
//     plain_files DIRECTORY FILES THREADS BYTES

#define _GNU_SOURCE
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

enum { FILES_PER_DIRECTORY = 4096 };

static const char *root;
static long files_per_thread;
static size_t bytes;

static double now(void)
{
    struct timespec at;
    clock_gettime(CLOCK_MONOTONIC, &at);
    return at.tv_sec + at.tv_nsec * 1e-9;
}

static void fail(const char *what)
{
    perror(what);
    exit(1);
}

static void *work(void *argument)
{
    long thread = (long)argument;
    char path[4096], *content = malloc(bytes);
    int directory = -1;
    memset(content, 'x', bytes);
    for (long file = 0; file < files_per_thread; file++) {
        if (file % FILES_PER_DIRECTORY == 0) {
            if (directory >= 0)
                close(directory);
            snprintf(path, sizeof path, "%s/t%ld-%ld", root, thread, file / FILES_PER_DIRECTORY);
            if (mkdir(path, 0777) || (directory = open(path, O_RDONLY | O_DIRECTORY)) < 0)
                fail(path);
        }
        snprintf(path, sizeof path, "f%010ld", file);
        int fd = openat(directory, path, O_WRONLY | O_CREAT | O_EXCL, 0644);
        if (fd < 0 || write(fd, content, bytes) != (ssize_t)bytes || close(fd))
            fail(path);
    }
    close(directory);
    free(content);
    return NULL;
}

int main(int count, char **arguments)
{
    if (count != 5) {
        fprintf(stderr, "usage: plain_files DIRECTORY FILES THREADS BYTES\n");
        return 2;
    }
    root = arguments[1];
    long threads = atol(arguments[3]);
    files_per_thread = atol(arguments[2]) / threads;
    bytes = (size_t)atol(arguments[4]);
    pthread_t workers[256];
    double begun = now();
    for (long thread = 0; thread < threads; thread++)
        if (pthread_create(&workers[thread], NULL, work, (void *)thread))
            fail("pthread_create");
    for (long thread = 0; thread < threads; thread++)
        pthread_join(workers[thread], NULL);
    double done = now() - begun;
    int fd = open(root, O_RDONLY | O_DIRECTORY);
    if (fd < 0 || syncfs(fd))
        fail(root);
    printf("{\"files\": %ld, \"done_s\": %.6f, \"durable_s\": %.6f}\n",
           files_per_thread * threads, done, now() - begun);
    return 0;
}
