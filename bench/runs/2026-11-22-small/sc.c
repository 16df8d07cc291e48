#define _GNU_SOURCE
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/xattr.h>
#include <time.h>
#include <unistd.h>
static double now(){struct timespec t;clock_gettime(CLOCK_PROCESS_CPUTIME_ID,&t);return t.tv_sec+t.tv_nsec*1e-9;}
#define N 100000
#define M (STATX_TYPE|STATX_MODE|STATX_NLINK|STATX_UID|STATX_GID|STATX_MTIME|STATX_CTIME|STATX_INO|STATX_SIZE|STATX_BLOCKS)
static char n[N][32]; 
#define T(name,body) {double t=now();for(int i=0;i<N;i++){body;}printf("%-28s %.3f us\n",name,(now()-t)/N*1e6);}
int main(int c,char**v){mkdir("/dev/shm/sc",0755);int d=open("/dev/shm/sc",O_RDONLY|O_DIRECTORY);char b[4096]={0},l[1024];struct statx x;struct stat s;
for(int i=0;i<N;i++){sprintf(n[i],"file-%06d",(i*7919)%N);int f=openat(d,n[i],O_WRONLY|O_CREAT,0644);if(write(f,b,4096)<0)return 1;close(f);}
for(int r=0;r<3;r++){int f=openat(d,n[0],O_RDONLY);
T("getppid",syscall(SYS_getppid))
T("statx path",statx(d,n[i],AT_SYMLINK_NOFOLLOW|AT_NO_AUTOMOUNT,M,&x))
T("fstatat path",fstatat(d,n[i],&s,AT_SYMLINK_NOFOLLOW|AT_NO_AUTOMOUNT))
T("listxattrat",syscall(465,d,n[i],AT_SYMLINK_NOFOLLOW,l,1024))
T("statx fd",statx(f,"",AT_EMPTY_PATH,M,&x))
T("statx fd NULL",syscall(SYS_statx,f,NULL,AT_EMPTY_PATH,M,&x))
T("fstat fd",fstat(f,&s))
T("flistxattr fd",flistxattr(f,l,1024))
T("open+close",close(openat(d,n[i],O_RDONLY|O_NOFOLLOW|O_CLOEXEC|O_NONBLOCK|O_NOCTTY|O_NOATIME)))
T("open+close no noatime",close(openat(d,n[i],O_RDONLY|O_NOFOLLOW|O_CLOEXEC|O_NONBLOCK)))
T("O_PATH open+close",close(openat(d,n[i],O_PATH|O_NOFOLLOW|O_CLOEXEC)))
T("pread same",pread(f,b,4096,0)<0)
T("open+pread+close",{int g=openat(d,n[i],O_RDONLY|O_NOFOLLOW|O_CLOEXEC);if(pread(g,b,4096,0)<0)return 1;close(g);})
close(f);}}
