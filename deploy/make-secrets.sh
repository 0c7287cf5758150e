#!/bin/sh
# Makes the secrets of compose.yaml, each once: what is there is kept. The key of the model's provider is asked for.
set -eu
cd "$(dirname "$0")"
umask 077
mkdir -p secrets
cd secrets

# A container reads the files as another user; on this machine the folder keeps everybody else out.
put() {
  [ -s "$1" ] || printf '%s' "$2" > "$1"
  chmod 0644 "$1"
}

put postgres_password "$(openssl rand -hex 24)"
put vault_key "$(openssl rand -base64 32)"
put metrics_token "$(openssl rand -hex 32)"
put inngest_event_key "$(openssl rand -hex 16)"
put inngest_signing_key "$(openssl rand -hex 32)"
put database_url "postgres://bailiff:$(cat postgres_password)@postgres:5432/bailiff"
put inngest.env "INNGEST_EVENT_KEY=$(cat inngest_event_key)
INNGEST_SIGNING_KEY=$(cat inngest_signing_key)
INNGEST_POSTGRES_URI=postgres://bailiff:$(cat postgres_password)@postgres:5432/inngest
"
if [ ! -s model_api_key ]; then
  printf 'key of the model provider: ' >&2
  stty -echo 2>/dev/null || true
  read -r key
  stty echo 2>/dev/null || true
  printf '\n' >&2
  put model_api_key "$key"
fi
printf 'secrets are in %s; back up vault_key\n' "$PWD" >&2
