#!/bin/sh
# Runs etcd and three API servers of tools/control-plane.sh on loopback: plain gates on PORT, every DRA gate on PORT+1, every DRA gate that
# can be switched off on PORT+4; the last two share what they store. Usage: servers.sh FOLDER [PORT]; the folder (any, outside of the
# repository) keeps what they write. Ends with this shell.
set -eu
folder=$1 port=${2:-16443}
programs=$("$(dirname "$0")/../../../tools/control-plane.sh" --print) || { echo "servers.sh: no control plane, see above" >&2; exit 1; }
etcd=$(echo "$programs" | grep '/etcd$') apiserver=$(echo "$programs" | grep '/kube-apiserver$')
mkdir -p "$folder/run"

cd "$folder/run"
rm -rf data && mkdir -p data certs-plain certs-all certs-off
openssl genrsa -out sa.key 2048 2> /dev/null
echo 'witness,admin,admin,system:masters' > tokens.csv
started=
trap 'kill -9 $started 2> /dev/null; exit' EXIT INT TERM
"$etcd" --unsafe-no-fsync --data-dir data --listen-client-urls "http://127.0.0.1:$((port + 2))" \
    --advertise-client-urls "http://127.0.0.1:$((port + 2))" --listen-peer-urls "http://127.0.0.1:$((port + 3))" --log-level error > etcd.log 2>&1 &
started=$!

serve() { # name, port, feature gates, where to store
    "$apiserver" --etcd-servers "http://127.0.0.1:$((port + 2))" --etcd-prefix "/$4" --bind-address 127.0.0.1 --secure-port "$2" \
        --cert-dir "certs-$1" --service-account-key-file sa.key --service-account-signing-key-file sa.key --service-account-issuer https://witness \
        --token-auth-file tokens.csv --authorization-mode RBAC --disable-admission-plugins ServiceAccount --service-cluster-ip-range 10.0.0.0/24 \
        --runtime-config api/all=true --feature-gates "$3" > "$1.log" 2>&1 &
    started="$! $started"
}
serve plain "$port" "" plain
serve all "$((port + 1))" "DRAListTypeAttributes=true,DRANodeAllocatableResources=true,DRAResourcePoolStatus=true,DRADerivedAttributes=true,\
DRADeviceCompatibilityGroups=true,DRAOptionalNodeOperations=true,NodeDeclaredFeatures=true,DRAPartitionableDevicesType=true,\
DRAFractionalCapacityRange=true" all
serve off "$((port + 4))" "DRADeviceTaints=false,DRADeviceTaintRules=false,DRAConsumableCapacity=false,DRADeviceBindingConditions=false,\
DRAPartitionableDevices=false" all
wait
