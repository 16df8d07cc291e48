// Contention in one directory: two creators and one renamer. dirs DIR MODE FILES
#define _GNU_SOURCE
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>
#include <stdatomic.h>
static int dirfd_, tmpfd[4], N, mode; static char buf[4096];
static atomic_int made[2]; static pthread_mutex_t mu=PTHREAD_MUTEX_INITIALIZER; static volatile double sink;
static double now(){struct timespec t;clock_gettime(CLOCK_MONOTONIC,&t);return t.tv_sec+t.tv_nsec*1e-9;}
static void work(){unsigned long x=1;for(int i=0;i<5000;i++)x=x*6364136223846793005ul+1;sink=x;}
static void create1(int l,int i,int*fd){char n[64];sprintf(n,".pst-%d-%020d",l,i);
  *fd=openat(mode==3||mode==7?tmpfd[l]:dirfd_,n,O_WRONLY|O_CREAT|O_EXCL|O_CLOEXEC|O_NOFOLLOW|O_NONBLOCK,0644); if(*fd<0){perror("create");exit(1);}}
static void fill1(int fd){struct timespec t[2]={{0,UTIME_OMIT},{1700000000,1}};
  work(); if(pwrite(fd,buf,4096,0)!=4096)exit(2); futimens(fd,t); close(fd);}
static void ren(int l,int i){char n[64],m[64];sprintf(n,".pst-%d-%020d",l,i);sprintf(m,"file-%d-%06d",l,i);
  if(renameat(mode==3||mode==7?tmpfd[l]:dirfd_,n,dirfd_,m)){perror("rename");exit(1);}}
static void*lane(void*a){int l=(long)a;int b=(mode==2||mode==6)?16:mode==5?64:1;int fds[64];
  for(int i=0;i<N;i+=b){int k=N-i<b?N-i:b;
    if(mode==1||mode==2||mode==5)pthread_mutex_lock(&mu);
    for(int j=0;j<k;j++)create1(l,i+j,&fds[j]);
    if(mode==1||mode==2||mode==5)pthread_mutex_unlock(&mu);
    for(int j=0;j<k;j++)fill1(fds[j]);
    atomic_store(&made[l],i+k);
    if(mode==4||mode==7){ if((i+1)%8192==0||i+1==N){int f=(i/8192)*8192;for(int j=f;j<=i;j++)ren(l,j);} }
  } return 0;}
static void*pub(void*a){int d[2]={0,0};if(mode==4||mode==7)return 0;
  while(d[0]<N||d[1]<N){int any=0;for(int l=0;l<2;l++){int m=atomic_load(&made[l]);if(m-d[l]>=8192||m==N){
     int b=mode==2?16:mode==5?64:1;
     while(d[l]<m){int k=m-d[l]<b?m-d[l]:b; if(mode==1||mode==2||mode==5)pthread_mutex_lock(&mu);
       for(int j=0;j<k;j++)ren(l,d[l]+j); d[l]+=k;
       if(mode==1||mode==2||mode==5)pthread_mutex_unlock(&mu);} any=1;}}
   if(!any)usleep(2000);} return 0;}
int main(int c,char**v){mode=atoi(v[2]);N=atoi(v[3])/2;mkdir(v[1],0755);dirfd_=open(v[1],O_RDONLY|O_DIRECTORY);
 for(int l=0;l<2;l++){char p[256];sprintf(p,"%s/.t%d",v[1],l);mkdir(p,0755);tmpfd[l]=open(p,O_RDONLY|O_DIRECTORY);}
 struct rusage r;double t=now();pthread_t a[3];for(long i=0;i<2;i++)pthread_create(&a[i],0,lane,(void*)i);pthread_create(&a[2],0,pub,0);
 for(int i=0;i<3;i++)pthread_join(a[i],0);t=now()-t;getrusage(RUSAGE_SELF,&r);
 double cpu=r.ru_utime.tv_sec+r.ru_stime.tv_sec+(r.ru_utime.tv_usec+r.ru_stime.tv_usec)*1e-6;
 printf("mode %d cpu %.2f us/file (user %.2f) wall %.2f us/file csw %ld+%ld\n",mode,cpu/N/2*1e6,(r.ru_utime.tv_sec+r.ru_utime.tv_usec*1e-6)/N/2*1e6,t/N/2*1e6,r.ru_nvcsw,r.ru_nivcsw);}
