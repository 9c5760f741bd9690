#!/usr/bin/env bash
# A slice of the tests of Spark on further releases of it, each in a virtual environment below build/
# that has the packages of .venv, but another pyspark. SPARKS names the releases. Arguments go to
# pytest, and those that are files take the place of the slice.
set -euo pipefail
cd "$(dirname "$0")/.."

fast_doors=(read write runner merge columnar)
all_doors=("${fast_doors[@]}" source types sql columns diff streaming source_connect)

site_of() { "$1/bin/python" -c 'import site; print(site.getsitepackages()[0])'; }

for release in ${SPARKS:-3.5 4.0 4.1 4.2}; do
  venv=build/spark$release
  if [ ! -e "$venv/bin/lw" ] || [ requirements.lock -nt "$venv/bin/lw" ]; then
    echo "Spark $release: installing it beside the packages of requirements.lock"
    rm -rf "$venv"
    .venv/bin/python -m venv "$venv"
    echo "import site; site.addsitedir('$(site_of .venv)')" > "$(site_of "$venv")/locked.pth"
    "$venv/bin/pip" install --quiet --disable-pip-version-check "pyspark==$release.*"
    "$venv/bin/pip" install --quiet --disable-pip-version-check --no-deps --no-build-isolation -e .
  fi
  slice=("${all_doors[@]}")
  if [ "$release" = 3.5 ]; then slice=("${fast_doors[@]}"); fi
  files=("${slice[@]/#/tests/spark/test_}")
  files=("${files[@]/%/.py}")
  for each in "$@"; do
    if [ -e "${each%%::*}" ]; then files=(); fi
  done
  echo "Spark $release: ${files[*]} $*"
  "$venv/bin/python" -m pytest -q -n 2 --dist loadgroup --no-loadscope-reorder \
    --reruns 2 --only-rerun "Python worker failed to connect back" "${files[@]}" "$@"
done
