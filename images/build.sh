#!/usr/bin/env bash
# Builds the organizers' images and the demo's submissions, without a network inside the builds.
#
#   images/build.sh [--cuda] [FOLDER ...]
#
# `sparring image build` runs this script, also where sparring is installed without a clone.
#
# FOLDER is a folder with a submission.yaml and a Dockerfile; without one, all under images/, examples/demo/submissions/,
# examples/warmup/players/ and examples/query/players/ are built. Tags: the manifest's `image`; one without a tag gets :cpu, or with --cuda :cuda (then only what says
# `gpu: true` is built). Labels: `sparring.source`, the digest of the folder's files. Which image was built from which files
# is written down in ~/.local/state/sparring/built (XDG_STATE_HOME): rounds play what is written down there.
# images/runner and images/service are folders of their own kind: sparring/runner:cpu and, on it, sparring/service:cpu, which no
# submission stands on. images/_base stands for the base images alone, which are also built before any submission.
#
# Environment:
#   SPARRING_BASE_IMAGE      what sparring/base is built on (python:3.11-slim)
#   SPARRING_DEBIAN_MIRROR   where debootstrap finds Debian, if the base image has to be made here
#   SPARRING_BUSYBOX         a static busybox for sparring/runner (else Debian's, as apt-get downloads it)
#   SPARRING_IMAGES_WORK     where wheels and logs are kept (build/images)
#   PYTHON                   reads manifests, and its pip downloads the wheels (.venv/bin/python, which `make images` makes,
#                            else python3); pip's settings are honoured
set -euo pipefail
from=$PWD
cd "$(dirname "$0")/.."

# What functions find out once, whatever the environment has under these names.
machine= indexes_known=

flavour=cpu
fallback=sparring/debian-python:bookworm
work=${SPARRING_IMAGES_WORK:-$PWD/build/images}
if [ -z "${PYTHON:-}" ]; then
  PYTHON=python3
  [ -x .venv/bin/python ] && PYTHON=.venv/bin/python
fi

say() { printf '%s\n' "$*"; }
die() { printf 'images/build.sh: %s\n  remedy: %s\n' "$1" "$2" >&2; exit 1; }
present() { docker image inspect "$1" >/dev/null 2>&1; }

main() {
  if [ "${1:-}" = --cuda ]; then flavour=cuda; shift; fi
  local base folders=("$@") submissions=() folder
  command -v docker >/dev/null || die "the docker program is not installed" "install Docker's command line"
  docker version >/dev/null 2>&1 || die "no Docker engine answers" "start it, or point DOCKER_HOST at one"
  "$PYTHON" -m pip --version >/dev/null 2>&1 || die "$PYTHON has no pip" "set PYTHON to one that has"
  if [ ${#folders[@]} = 0 ]; then
    folders=("$PWD"/images/*/submission.yaml "$PWD"/examples/{demo/submissions,{warmup,query}/players}/*/submission.yaml)
    folders=("${folders[@]%/submission.yaml}")
  fi

  base_image
  case ${folders[*]%/} in images/runner | images/service) ;; *) build_bases ;; esac
  if [ "$flavour" = cpu ] && [ $# = 0 ]; then
    build_runner
    build_service
  fi
  for folder in "${folders[@]}"; do
    case $folder in
      images/_base | images/_base/) ;;
      images/runner | images/runner/) build_runner ;;
      images/service | images/service/) build_service ;;
      /*) submissions+=("${folder%/}") ;;
      *) submissions+=("$from/${folder%/}") ;;
    esac
  done
  [ ${#submissions[@]} = 0 ] || build_submissions "${submissions[@]}"
}

# Sets `base` to an image with python3 that is present.
base_image() {
  base=${SPARRING_BASE_IMAGE:-python:3.11-slim}
  if present "$base"; then say "base image: $base"; return; fi
  say "base image: $base is not here, pulling it"
  if docker pull -q "$base" >/dev/null 2>&1; then return; fi
  say "base image: $base cannot be pulled, using $fallback"
  base=$fallback
  present "$base" || debian_image
}

# Makes `fallback` from Debian's packages.
debian_image() {
  local root
  command -v debootstrap >/dev/null || die "there is no base image and no debootstrap to make one" \
    "docker load one and name it in SPARRING_BASE_IMAGE, or install debootstrap"
  [ "$(id -u)" = 0 ] || die "debootstrap needs root" "run as root, or name an image in SPARRING_BASE_IMAGE"
  mkdir -p "$work"
  root=$(mktemp -d "$work/debian.XXXXXX")
  chmod 755 "$root"
  # shellcheck disable=SC2064  the folder as it is now
  trap "rm -rf '$root'" EXIT
  say "base image: making $fallback with debootstrap (minutes)"
  debootstrap --variant=minbase --include=python3,python3-venv bookworm "$root" ${SPARRING_DEBIAN_MIRROR:-} \
    >"$work/debootstrap.log" 2>&1 || die "debootstrap failed, see $work/debootstrap.log" \
    "name a mirror that can be reached in SPARRING_DEBIAN_MIRROR"
  rm -rf "$root"/var/cache/apt/* "$root"/var/lib/apt/lists/* "$root"/var/log/* "$root"/usr/share/{info,locale,man}
  # What players have no use for makes each fresh copy of an image slower. Licences stay.
  find "$root/usr/share/doc" -type f ! -name copyright -delete
  ln -s /usr/bin/python3 "$root/usr/local/bin/python"
  tar -C "$root" --one-file-system -c . | docker import --change 'CMD ["python3"]' - "$fallback" >/dev/null
  rm -rf "$root"
  trap - EXIT
}

build_bases() {
  local wheels
  wheelhouse base images/_base/requirements.lock
  cpu_torch "$wheels"
  build images/_base sparring/base:cpu -f cpu.Dockerfile --target base --build-arg BASE_IMAGE="$base"
  if [ "$flavour" = cpu ]; then
    build images/_base sparring/base-torch:cpu -f cpu.Dockerfile --target base-torch --build-arg BASE_IMAGE="$base"
  else
    wheelhouse base-cuda images/_base/requirements.cuda.lock
    build images/_base sparring/base-torch:cuda -f cuda.Dockerfile --build-arg BASE=sparring/base:cpu
  fi
  docker run --rm --network none --read-only "sparring/base-torch:$flavour" python -c 'import sparring_models' ||
    die "PyTorch does not load in sparring/base-torch:$flavour" "the message above says why"
}

build_runner() {
  local wheels more package=$PWD
  [ -d orchestrator ] || package=$PWD/../..  # in an installed package, this is orchestrator/_share
  wheelhouse runner images/runner/requirements.lock
  static_shell
  more=(-C "$package" --exclude=orchestrator/_share orchestrator -C "$work/shell" sh)
  build images/runner sparring/runner:cpu --build-arg BASE_IMAGE="$base"
  docker run --rm --network none --read-only --entrypoint /opt/runner/sh sparring/runner:cpu -c \
    'python3 -c "import orchestrator.sandboxes.pod.backend, orchestrator.execution.job_runner"' ||
    die "sparring/runner does not work" "the message above says why"
}

build_service() {
  local wheels
  present sparring/runner:cpu || die "there is no sparring/runner:cpu to build on" "images/build.sh images/runner"
  wheelhouse service images/service/requirements.lock
  build images/service sparring/service:cpu
  docker run --rm --network none --read-only --tmpfs /tmp -i --entrypoint python3 sparring/service:cpu - <<'EOF' ||
from pathlib import Path

from orchestrator.web import setup
from orchestrator.web.settings import WebSettings

setup.configure(WebSettings(contest=Path("/tmp"), address="http://localhost"))
setup.make_tables()
import orchestrator.web.server, orchestrator.web.urls, psycopg
EOF
    die "sparring/service does not work" "the message above says why"
}

# Puts a static busybox into build/images/shell/sh.
static_shell() {
  local shell=$work/shell
  [ ! -x "$shell/sh" ] || [ -n "${SPARRING_BUSYBOX:-}" ] || return 0
  rm -rf "$shell"
  mkdir -p "$shell"
  if [ -n "${SPARRING_BUSYBOX:-}" ]; then
    (cd "$from" && cat -- "$SPARRING_BUSYBOX") >"$shell/sh" ||
      die "SPARRING_BUSYBOX is $SPARRING_BUSYBOX, which cannot be read" "name a static busybox"
  else
    say "shell: downloading Debian's busybox-static"
    (cd "$shell" && apt-get download -qq busybox-static && dpkg-deb -x busybox-static_*.deb .) >"$work/shell.log" 2>&1 ||
      die "busybox-static cannot be downloaded, see $work/shell.log" "name a static busybox in SPARRING_BUSYBOX"
    cp "$shell/bin/busybox" "$shell/sh"
  fi
  chmod 755 "$shell/sh"
}

# build_submissions FOLDER ...
build_submissions() {
  local folder described name digest
  for folder; do
    [ -f "$folder/submission.yaml" ] || die "$folder has no submission.yaml" "name a submission's folder"
    [ -f "$folder/Dockerfile" ] || die "$folder has no Dockerfile" "images/README.md shows one"
  done
  described=$(describe "$@") || die "a submission cannot be read" "the message above says why"
  while read -r name digest <&3; do
    [ -z "$name" ] || build_submission "$1" "$name" "$digest"
    shift
  done 3<<<"$described"
}

# build_submission FOLDER NAME DIGEST
build_submission() {
  local folder=$1 wheels= options=()
  [ ! -f "$folder/requirements.lock" ] || wheelhouse "$(basename "$folder")" "$folder/requirements.lock"
  if [ "$flavour" = cuda ] && grep -q '^ARG BASE=sparring/base-torch:cpu' "$folder/Dockerfile"; then
    options=(--build-arg BASE=sparring/base-torch:cuda)
  fi
  build "$folder" "$2" --label "sparring.source=$3" --iidfile "$work/id" "${options[@]}"
  note "$folder" "$3" "$(cat "$work/id")"
}

# note FOLDER DIGEST ID: writes down which image was built from these files; a round plays what is written down here.
note() {
  "$PYTHON" - "$1" "$2" "$3" "$flavour" <<'EOF'
import sys
from pathlib import Path

from orchestrator.errors import SparringError
from orchestrator.intake.build_record import BuildRecord
from orchestrator.intake.source_tree import scan_folder

folder, digest, image, flavour = sys.argv[1:]
try:
    if scan_folder(Path(folder)).digest != digest:
        sys.exit(f"{folder} changed while it was built; build it again")
    BuildRecord.of_user().add(digest, flavour, image)
except SparringError as error:
    sys.exit(str(error))
EOF
}

# describe FOLDER ...: prints a line for each: the name under which admission looks a submission's image up, a blank, and the
# digest of its files; an empty line with --cuda where it does not say `gpu: true`.
describe() {
  "$PYTHON" - "$flavour" "$@" <<'EOF'
import sys
from pathlib import Path

try:
    from orchestrator.errors import SparringError
    from orchestrator.intake import image_build, manifest, source_tree
except ImportError as error:
    sys.exit(f"{sys.executable} cannot read manifests: {error}\n  remedy: `sparring image build`, or set PYTHON to one that can")
flavour, *folders = sys.argv[1:]
try:
    for folder in map(Path, folders):
        found = manifest.read_manifest(folder)
        if flavour == "cuda" and not found.gpu:
            print()
            continue
        name = image_build.image_tag(folder, found, flavour)
        if (other := image_build.shipped_folder_with_image(folder, name)) is not None:
            sys.exit(f"{name} is the image of {other}; give {folder} an `image:` of its own in its submission.yaml")
        print(name, source_tree.scan_folder(folder).digest)
except SparringError as error:
    sys.exit(f"{folder} cannot be read: {error}")
EOF
}

# wheelhouse NAME LOCK: sets `wheels` to a folder that holds wheels/, complete and fresh for the base image's Python.
# Debian 12 and everything newer has glibc 2.36, so wheels for any glibc up to that will do.
wheelhouse() {
  local stamp name platforms=()
  base_python
  wheels=$work/$1
  stamp="$version $machine $(sha256sum <"$2")"
  if [ "$(cat "$wheels/stamp" 2>/dev/null)" = "$stamp" ]; then return; fi
  say "wheels: downloading what $2 names, for Python $version on $machine"
  rm -rf "$wheels"
  mkdir -p "$wheels/wheels"
  extra_indexes
  for name in 1 2010 2014 $(seq -f '_2_%g' 5 36); do platforms+=(--platform "manylinux${name}_$machine"); done
  "$PYTHON" -m pip download -qq --no-deps --only-binary :all: --implementation cp --python-version "$version" \
    "${platforms[@]}" --dest "$wheels/wheels" -r "$2" ||
    die "not every wheel that $2 names can be downloaded" "set pip's index or find-links (PIP_INDEX_URL, PIP_FIND_LINKS)"
  printf '%s\n' "$stamp" >"$wheels/stamp"
}

# Sets `version` and `machine` to those of the base image's Python, once.
base_python() {
  [ -z "$machine" ] || return 0
  read -r version machine < <(docker run --rm --network none --entrypoint python3 "$base" -c \
    'import platform, sys; print("%d.%d" % sys.version_info[:2], platform.machine())') ||
    die "python3 does not run in $base" "name another image in SPARRING_BASE_IMAGE"
}

# Leaves out, once, the extra indexes of pip that do not answer: it would wait minutes for them, wheel by wheel.
extra_indexes() {
  [ -z "$indexes_known" ] || return 0
  PIP_EXTRA_INDEX_URL=$("$PYTHON" tools/extra_indexes.py download) ||
    die "pip's settings cannot be read" "the message above says why"
  export PIP_EXTRA_INDEX_URL
  indexes_known=yes
}

# cpu_torch WHEELS: refuses PyTorch's CUDA build, which does not load without libraries that the lock does not name.
cpu_torch() {
  ls "$1"/wheels/torch-*+cpu-*.whl >/dev/null 2>&1 && return
  [ "$flavour" = cuda ] && return
  rm -rf "$1"
  die "pip found a PyTorch that is not the CPU build" \
    "export PIP_EXTRA_INDEX_URL=https://download.pytorch.org/whl/cpu, or put the wheel into a folder of PIP_FIND_LINKS"
}

# build FOLDER TAG [docker build's options ...]: the folder, and its wheels if it has any, go to the engine as one stream.
build() {
  local folder=$1 tag=$2 started=$SECONDS
  shift 2
  local files=(-C "$folder" --exclude=__pycache__ --exclude=./wheels .)
  [ -z "${wheels:-}" ] || files+=(-C "$wheels" wheels)
  [ -z "${more:-}" ] || files+=("${more[@]}")
  printf 'building %s' "$tag"
  tar -c --owner=0 --group=0 --mode=u=rwX,go=rX "${files[@]}" |
    docker build -q --network none --build-arg PIP_NO_INDEX=1 --build-arg PIP_FIND_LINKS=/wheels -t "$tag" "$@" - \
      >"$work/build.log" 2>&1 || {
    printf '\n'
    cat "$work/build.log" >&2
    die "docker build of $folder failed" "the last lines above name the step"
  }
  say " ($((SECONDS - started)) s)"
}

main "$@"
