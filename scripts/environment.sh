# Sourced by scripts/python and scripts/docs, which name the project's folder in `root`.

# TensorFlow reads this variable when it is first imported, which a user's module may do before the project can set it.
# TFF's compiler would then print an error for each computation without a result.
export TF_CPP_MIN_LOG_LEVEL="${TF_CPP_MIN_LOG_LEVEL:-3}"

# make_environment VENV LOCK SIZE: makes a Python environment from a lock file, if it is missing or out of date.
make_environment() {
    venv=$1
    lock=$2
    size=$3
    stamp=$venv/installed.lock # A copy of the lock file, written last, so an environment without it is incomplete.
    if ! is_current; then
        (
            flock 9 # If two programs start at once, the second waits, and then finds the environment.
            is_current || set_up
        ) 9>"$venv.flock"
    fi
}

is_current() { cmp -s "$lock" "$stamp" && [ -x "$venv/bin/python" ]; }

set_up() {
    if [ -z "${PROJECT_PYTHON:-}" ] && ! python3.11 -c 'import ensurepip' 2>/dev/null && command -v apt-get >/dev/null; then
        # If this fails, the messages below name what is missing.
        bash -c 'source "$0" && apt_install python3.11-venv' "$root/scripts/debian.sh" >&2 || true
    fi
    python=${PROJECT_PYTHON:-$(command -v python3.11 || true)}
    if ! version=$("${python:-false}" -c 'import sys; print("%d.%d" % sys.version_info[:2])' 2>/dev/null) ||
        [ "$version" != 3.11 ]; then
        echo "Python 3.11 is needed: install it (Debian 12: apt-get install python3.11 python3.11-venv)" \
            "or name one in PROJECT_PYTHON." >&2
        exit 1
    fi
    echo "Setting up the environment in $venv (once, a few minutes, $size) ..." >&2
    rm -rf "$venv"
    if ! "$python" -m venv "$venv" >&2; then
        echo "The virtual environment could not be made: is python3.11-venv installed?" >&2
        exit 1
    fi
    if ! "$venv/bin/python" -m pip install --disable-pip-version-check -qq --no-deps \
        --require-hashes --requirement "$lock" >&2; then
        echo "The set-up failed; see pip's messages above. The next start tries again." >&2
        exit 1
    fi
    cp "$lock" "$stamp.part"
    mv "$stamp.part" "$stamp"
}
