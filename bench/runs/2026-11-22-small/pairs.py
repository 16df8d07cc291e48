#!/usr/bin/env python3
"""A B A B: CPU a small file of several binaries. ab.py [-n REPS] [-m mode] [-f FILES] [-s SIZE] BIN..."""
import sys; sys.dont_write_bytecode=True
sys.path.insert(0,__file__.rsplit('/runs/',1)[0])
import argparse, os, shutil, subprocess, time, statistics, json
from harness import Group, fresh, measure_tree, same, end_on_signals, spent
import sites
p=argparse.ArgumentParser(); p.add_argument('-n',type=int,default=5); p.add_argument('-m',default='tls blake3'); p.add_argument('-f',type=int,default=100000)
p.add_argument('-s',default='4K'); p.add_argument('-l',default='flat'); p.add_argument('-w',type=int,default=0)
p.add_argument('--perf',default=''); p.add_argument('--strace',action='store_true'); p.add_argument('--copy',action='store_true'); p.add_argument('--sync',action='store_true'); p.add_argument('-o'); p.add_argument('bins',nargs='+')
a=p.parse_args(); end_on_signals()
root='/dev/shm/pst-ab-%d'%os.getpid(); fresh(root,0o755); data=fresh(root+'/data'); src=data+'/src'; out=data+'/out'
def cpu(pid):
    f=open(f'/proc/{pid}/stat').read().rsplit(')',1)[1].split(); return int(f[11])/100,int(f[12])/100
def warm():
    if a.w:
        with open(root+'/warm','wb',buffering=0) as o:
            b=bytes(2**20)
            for _ in range(a.w): o.write(b)
        os.remove(root+'/warm')
S={}
try:
    subprocess.run([a.bins[0].split('@')[0],'dataset','make',src,'--files',str(a.f),'--size',a.s,'--layout',a.l],stdout=subprocess.DEVNULL,check=True)
    files,_=measure_tree(src)
    rows={b:[] for b in a.bins}
    if not a.copy:
        for i,b in enumerate(a.bins):
            S[b]=sites.Sites(b.split('@')[0],fresh(root+f'/s{i}'),data,Group(f'ab{i}'),120)
    g=Group('abc')
    for rep in range(a.n+1):
        r=rep%len(a.bins)
        for b in a.bins[r:]+a.bins[:r]:
            warm()
            if not (a.sync and rep): fresh(out)
            if a.copy:
                env=os.environ|{'XDG_STATE_HOME':fresh(root+'/st')}
                b0=g.cpu(); t=time.monotonic()
                subprocess.Popen([b.split('@')[0],'copy',src+'/',out]+(['--sync'] if a.sync else []),preexec_fn=g.enter,env=env,stdout=subprocess.DEVNULL,stderr=subprocess.DEVNULL,stdin=subprocess.DEVNULL).wait()
                wall=time.monotonic()-t; c=spent(g,b0); split=''; s=d=(0,0)
            else:
                s0=[cpu(x.pid) for x in S[b].daemons]
                tr=[]
                if rep and a.perf:
                    for x,n in zip(S[b].daemons,'ab'):
                        tr.append(subprocess.Popen(['perf','record',*os.environ.get('PF','-F 999 -g').split(),'-o',f'{a.perf}.{n}','-p',str(x.pid)],stderr=subprocess.DEVNULL))
                    time.sleep(2)
                if rep and a.strace:
                    for x,n in zip(S[b].daemons,'ab'):
                        tr.append(subprocess.Popen(['strace','-c','-f','-o',f'/tmp/strace.{n}','-p',str(x.pid)],stderr=subprocess.DEVNULL))
                    time.sleep(2)
                m=a.m
                sites.MODES['y']=sites.MODES[m]+b.split('@')[1:]; m='y'
                if a.sync: sites.MODES['x']=sites.MODES[m]+['--sync']; m='x'
                wall,c=S[b].move(m,('a:data/src/','b:data/out'))
                for x in tr: x.send_signal(2); x.wait()
                s1=[cpu(x.pid) for x in S[b].daemons]
                s,d=[(y[0]-x[0],y[1]-x[1]) for x,y in zip(s0,s1)]
            k=1e6/files
            row=dict(bin=b,rep=rep,mode=a.m,wall=round(wall,3),us=round(c*k,2),src=[round(x*k,1) for x in s],dst=[round(x*k,1) for x in d])
            print(json.dumps(row),flush=True)
            if a.o: open(a.o,'a').write(json.dumps(row)+'\n')
            if rep: rows[b].append(row)
    if not same(src,out): print('DIFFERS')
    base=None
    for b in a.bins:
        m=statistics.median(r['us'] for r in rows[b]); w=statistics.median(r['wall'] for r in rows[b])
        base=base or (m,w)
        print(f'{b}: {m:.2f} us [{min(r["us"] for r in rows[b])}-{max(r["us"] for r in rows[b])}] x{m/base[0]:.3f}; wall {w:.3f} = {files/w:.0f}/s x{w/base[1]:.3f}')
    if len(a.bins)>1:
        for b in a.bins[1:]:
            rs=[y['us']/x['us'] for x,y in zip(rows[a.bins[0]],rows[b])]
            print('paired ratio',b,f'{statistics.median(rs):.3f}',[round(r,3) for r in rs])
finally:
    for s in S.values(): s.stop()
    shutil.rmtree(root,ignore_errors=True)
