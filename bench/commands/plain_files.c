// The plainest program that leaves small files durable: each thread makes, writes and closes files
// in directories of its own, and one syncfs(2) ends it. With `renamed`, the files have temporary
// names until that sync; then each thread renames its files, and a second syncfs(2) ends it, so that
// no file that is not durable has its final name. Prints files and seconds as JSON.
//
//     plain_files DIRECTORY FILES THREADS BYTES [renamed]

#define _GNU_SOURCE
#include <fcntl.h>
#include <pthread.h>
#include <stdbool.h>
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
static bool renamed;

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

static int open_directory(long thread, long number, bool make)
{
    char path[4096];
    snprintf(path, sizeof path, "%s/t%ld-%ld", root, thread, number);
    if (make && mkdir(path, 0777))
        fail(path);
    int directory = open(path, O_RDONLY | O_DIRECTORY);
    if (directory < 0)
        fail(path);
    return directory;
}

static void sync_all(void)
{
    int fd = open(root, O_RDONLY | O_DIRECTORY);
    if (fd < 0 || syncfs(fd))
        fail(root);
    close(fd);
}

// Calls `each` for all files of a thread.
static void for_files(long thread, bool make, void (*each)(int directory, long file, void *with),
                      void *with)
{
    int directory = -1;
    for (long file = 0; file < files_per_thread; file++) {
        if (file % FILES_PER_DIRECTORY == 0) {
            if (directory >= 0)
                close(directory);
            directory = open_directory(thread, file / FILES_PER_DIRECTORY, make);
        }
        each(directory, file, with);
    }
    if (directory >= 0)
        close(directory);
}

static void write_file(int directory, long file, void *content)
{
    char name[32];
    snprintf(name, sizeof name, renamed ? ".f%010ld.tmp" : "f%010ld", file);
    int fd = openat(directory, name, O_WRONLY | O_CREAT | O_EXCL, 0644);
    if (fd < 0 || write(fd, content, bytes) != (ssize_t)bytes || close(fd))
        fail(name);
}

static void rename_file(int directory, long file, void *unused)
{
    char from[32], to[32];
    (void)unused;
    snprintf(from, sizeof from, ".f%010ld.tmp", file);
    snprintf(to, sizeof to, "f%010ld", file);
    if (renameat(directory, from, directory, to))
        fail(from);
}

static void *write_files(void *thread)
{
    char *content = malloc(bytes);
    memset(content, 'x', bytes);
    for_files((long)thread, true, write_file, content);
    free(content);
    return NULL;
}

static void *rename_files(void *thread)
{
    for_files((long)thread, false, rename_file, NULL);
    return NULL;
}

static void run_threads(long threads, void *(*work)(void *))
{
    pthread_t workers[256];
    for (long thread = 0; thread < threads; thread++)
        if (pthread_create(&workers[thread], NULL, work, (void *)thread))
            fail("pthread_create");
    for (long thread = 0; thread < threads; thread++)
        pthread_join(workers[thread], NULL);
}

int main(int count, char **arguments)
{
    renamed = count == 6 && strcmp(arguments[5], "renamed") == 0;
    if (count != 5 && !renamed) {
        fprintf(stderr, "usage: plain_files DIRECTORY FILES THREADS BYTES [renamed]\n");
        return 2;
    }
    root = arguments[1];
    long threads = atol(arguments[3]);
    if (threads < 1 || threads > 256) {
        fprintf(stderr, "plain_files: 1 to 256 threads\n");
        return 2;
    }
    files_per_thread = atol(arguments[2]) / threads;
    bytes = (size_t)atol(arguments[4]);
    double begun = now();
    run_threads(threads, write_files);
    double done = now() - begun;
    sync_all();
    if (renamed) {
        run_threads(threads, rename_files);
        sync_all();
    }
    printf("{\"files\": %ld, \"done_s\": %.6f, \"durable_s\": %.6f}\n",
           files_per_thread * threads, done, now() - begun);
    return 0;
}
