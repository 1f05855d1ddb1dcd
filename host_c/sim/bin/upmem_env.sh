# . upmem_env.sh [simulator]: the simulator's commands on PATH, as the SDK's script does for its own.
# . upmem_env.sh strict: every mistake that the hardware passes over ends the run, with its line.
_dpusim_bin=$(cd "$(dirname "${BASH_SOURCE[0]:-$0}")" && pwd)
case ":$PATH:" in
  *":$_dpusim_bin:"*) ;;
  *) export PATH="$_dpusim_bin:$PATH" ;;
esac
export UPMEM_HOME="$(dirname "$_dpusim_bin")"
case "${1:-simulator}" in
  strict) export UPMEM_PROFILE_BASE=backend=simulator,strict=1 ;;
  *) export UPMEM_PROFILE_BASE=backend=simulator ;;
esac
unset _dpusim_bin
