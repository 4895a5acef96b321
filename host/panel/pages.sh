#!/bin/sh
# Writes the files of the panel's page as C: an array of bytes for each, and the table of host/panel/panel_requests.h.
set -eu
echo '#include "host/panel/panel_requests.h"'
i=0
for file; do
  i=$((i + 1))
  echo "static const unsigned char bytes_$i[] = {"
  od -An -v -tu1 "$file" | tr -s ' \n' ',' | sed 's/^,//'
  echo '};'
done
i=0
echo 'const struct panel_page panel_pages[] = {'
for file; do
  i=$((i + 1))
  echo "{\"${file##*/}\", bytes_$i, sizeof bytes_$i},"
done
echo '{0}};'
