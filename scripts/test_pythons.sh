#!/usr/bin/env bash
# All tests but those of Spark, and then a walk with Spark, on each further Python of this machine, in
# a virtual environment of its own below build/. Arguments go to the first run of pytest; PYTHONS
# names the versions.
set -euo pipefail
cd "$(dirname "$0")/.."

# The first that runs: what pyenv puts on the PATH may lead to nothing.
find_python() {
  local each
  for each in "python$1" "$HOME/.pyenv/versions/$1".*/bin/python; do
    if "$each" -c "" 2>/dev/null; then
      echo "$each"
      return
    fi
  done
}

for version in ${PYTHONS:-3.12 3.13}; do
  python=$(find_python "$version")
  if [ -z "$python" ]; then
    echo "Python $version is not on this machine: skipped"
    continue
  fi
  venv=build/python$version
  if [ ! -e "$venv/.installed" ] || [ requirements.lock -nt "$venv/.installed" ]; then
    echo "Python $version: installing the packages of requirements.lock"
    "$python" -m venv "$venv"
    "$venv/bin/pip" install --quiet --disable-pip-version-check -r requirements.lock
    "$venv/bin/pip" install --quiet --disable-pip-version-check --no-deps --no-build-isolation -e .
    touch "$venv/.installed"
  fi
  echo "Python $version: all tests but those of Spark"
  "$venv/bin/python" -m pytest -q -n 3 --dist worksteal --ignore tests/spark "$@"
  echo "Python $version: a walk with Spark"
  "$venv/bin/python" -m pytest -q tests/spark/test_write.py tests/spark/pipeline/test_run.py
done
