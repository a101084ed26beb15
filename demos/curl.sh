#!/usr/bin/env bash
# Asks a running Wellspring with nothing but curl: a session, an answer as it is written, a cancel, a plain chat.
#   demos/curl.sh [URL]
set -euo pipefail

url=${1:-http://127.0.0.1:8080}

# post PATH JSON [CURL-OPTION...]; -N passes every line on as soon as it comes.
post() { curl -sSN -H 'Content-Type: application/json' -d "$2" "${@:3}" "$url/api/generation/$1"; }

# The text of one field; enough of a JSON parser for ids.
field() { sed -E "s/.*\"$1\":\"([^\"]+)\".*/\1/"; }

echo '# A session'
session=$(post session '{}' --fail-with-body | field sessionId)
echo "$session"

echo '# An answer: one JSON object a line, and the last one says how it ended'
post stream "{\"sessionId\":\"$session\",\"prompt\":\"How can a request be retried safely?\"}"

echo '# A cancel after the first line: what is under way still comes, and the last line says "cancelled"'
post stream "{\"sessionId\":\"$session\",\"prompt\":\"Tell me a long story.\"}" | {
  read -r first
  echo "$first"
  prompt=$(field promptId <<<"$first")
  # 204 if it was still running, 404 if it had ended already.
  post cancel "{\"sessionId\":\"$session\",\"promptId\":\"$prompt\"}" -o /dev/null -w 'cancel: %{http_code}\n'
  cat
}

echo '# A plain chat: one JSON object with the answer and its sources'
curl -sSf "$url/chat" -d '{"query":"How can a request be retried safely?","session_id":"'"$session"'"}'
echo
