# start.sh SITE: starts the daemon of a site unless it answers, and waits until it does
d=$DIR
$d/penstock site status --dir $d/$1 >/dev/null 2>&1 && exit 0
setsid $d/penstock daemon --dir $d/$1 >> $d/$1.log 2>&1 & echo $! > $d/$1.pid
for look in $(seq 300); do $d/penstock site status --dir $d/$1 >/dev/null 2>&1 && exit 0; sleep 0.1; done
exit 1
