#!/usr/bin/env python3
"""Re-running --sync over equal files, beside rsync -a re-run: A B C A B C."""
import sys; sys.dont_write_bytecode=True
sys.path.insert(0,__file__.rsplit('/runs/',1)[0])
import os, subprocess, time, statistics, json
from harness import Group, fresh, end_on_signals, spent
import sites, shutil
end_on_signals()
n=int(sys.argv[1]); bins=sys.argv[2:]
root='/dev/shm/pst-sy-%d'%os.getpid(); fresh(root,0o755); data=fresh(root+'/data')
src=data+'/src'; g=Group('sy'); rows={}; S={}; FILES=int(os.environ.get('FILES','100000')); LAYOUT=os.environ.get('LAYOUT','flat')
def timed(cmd,env=None):
    b=g.cpu(); t=time.monotonic()
    p=subprocess.Popen(cmd,preexec_fn=g.enter,env=env,stdout=subprocess.DEVNULL,stderr=subprocess.PIPE,stdin=subprocess.DEVNULL); e=p.communicate()[1]
    w=time.monotonic()-t
    if p.returncode: print(cmd,p.returncode,e[-500:])
    return w,spent(g,b)
try:
    subprocess.run([bins[0],'dataset','make',src,'--files',str(FILES),'--size','4K','--layout',LAYOUT],stdout=subprocess.DEVNULL,check=True)
    out=data+'/out'; out2=data+'/out2'
    subprocess.run(['rsync','-a',src+'/',out+'/'],check=True); 
    M=sites.MODES; M['y']=['--sync']
    for i,b in enumerate(bins):
        S[b]=sites.Sites(b,fresh(root+f'/s{i}'),data,Group(f'sy{i}'),120)
    def add(k,wc,rep):
        if rep: rows.setdefault(k,[]).append(wc)
        print(json.dumps(dict(what=k,rep=rep,wall=round(wc[0],3),cpu=round(wc[1],3))),flush=True)
    for rep in range(n+1):
        jobs=[('rsync -a',lambda:timed(['rsync','-a',src+'/',out+'/'])),('rsync -aAX',lambda:timed(['rsync','-aAX',src+'/',out+'/']))]
        for b in bins:
            t=os.path.basename(b)
            jobs.append((t+' copy --sync',lambda b=b:timed([b,'copy',src+'/',out,'--sync'],os.environ|{'XDG_STATE_HOME':fresh(root+'/st')})))
            jobs.append((t+' daemons --sync',lambda b=b:S[b].move('y',('a:data/src/','b:data/out'))))
        r=rep%len(jobs)
        for k,f in jobs[r:]+jobs[:r]: add(k,f(),rep)
    for k,v in rows.items():
        print(f'{k}: wall {statistics.median(x[0] for x in v):.3f} [{min(x[0] for x in v):.3f}-{max(x[0] for x in v):.3f}] cpu {statistics.median(x[1] for x in v):.3f} [{min(x[1] for x in v):.3f}-{max(x[1] for x in v):.3f}]')
finally:
    for s in S.values(): s.stop()
    shutil.rmtree(root,ignore_errors=True)
