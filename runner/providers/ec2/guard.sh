# Switches the machine off in $2 seconds, unless a file `guard` in the folder $1 says otherwise: the seconds from when it
# was written. Counted on the kernel's clock, which nobody sets. The agent writes the file whenever its lease moves.
cd "$1" || exit 1
uptime() { read -r up _ </proc/uptime; echo $((10#${up%.*} * 1000 + 10#${up#*.} * 10)); }
move() {
  whole=${1%.*} part=000
  [[ $1 == *.* ]] && part=${1#*.}000
  ends=$(($(uptime) + 10#$whole * 1000 + 10#${part:0:3}))
  # The system's own timer stays behind it, in case that this loop is killed.
  shutdown -h +$((10#$whole / 60 + 2)) 2>/dev/null
}
ends=$(($(uptime) + $2 * 1000))
while [ "$(uptime)" -lt "$ends" ]; do
  sleep 0.5
  if [ -e guard ] && mv guard .guard-read 2>/dev/null && read -r seconds <.guard-read; then
    [[ $seconds =~ ^[0-9]{1,9}(\.[0-9]+)?$ ]] && move "$seconds"
  fi
done
echo "frugald: no lease moved the guest timer in time" >>console.log
shutdown -h now
