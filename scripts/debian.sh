# Sourced by scripts/python, scripts/test and .ci/run: installs what a fresh Debian 12 lacks.

# Installs the packages that its arguments name, as root or with sudo.
apt_install() {
    [[ $# -gt 0 ]] || return 0
    printf '\n== apt-get install %s\n' "$*"
    local as_root=()
    if [[ $(id -u) -ne 0 ]]; then
        if ! command -v sudo >/dev/null; then
            echo "These packages are missing, and only root can install them: $*" >&2
            exit 1
        fi
        as_root=(sudo)
    fi
    "${as_root[@]}" apt-get -qq update
    "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get -qq install --yes --no-install-recommends "$@" >/dev/null
}

# Prints the missing packages that the tests need.
missing_for_tests() {
    command -v chromium >/dev/null || echo chromium chromium-driver # For the test of the report's page.
    "${PROJECT_PYTHON:-python3.11}" -c 'import ensurepip' 2>/dev/null || echo python3.11-venv
}
