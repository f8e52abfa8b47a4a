#!/bin/sh
# Builds etcd and kube-apiserver 1.37.1 from Go modules and runs three API servers on loopback: plain gates on PORT, every DRA gate
# on PORT+1, every DRA gate that can be switched off on PORT+4; the last two share what they store. Usage: servers.sh FOLDER [PORT]; the folder (any, outside of the repository) keeps the binaries. Ends with this shell.
set -eu
version=1.37.1 staging=0.37.1
folder=$1 port=${2:-16443}
mkdir -p "$folder/kube" "$folder/etcd" "$folder/bin" "$folder/run"

if [ ! -x "$folder/bin/etcd" ]; then
    cd "$folder/etcd"
    printf 'module witness/etcd\ngo 1.26\nrequire go.etcd.io/etcd/server/v3 v3.6.16\n' > go.mod
    printf 'package main\nimport (\n"os"\n"go.etcd.io/etcd/server/v3/etcdmain"\n)\nfunc main() { etcdmain.Main(os.Args) }\n' > main.go
    go mod tidy -e
    nice -n 10 go build -trimpath -ldflags "-s -w" -o "$folder/bin/etcd" .
fi
if [ ! -x "$folder/bin/kube-apiserver" ]; then
    cd "$folder/kube"
    mod=$(go mod download -json "k8s.io/kubernetes@v$version" | sed -n 's/.*"GoMod": "\(.*\)",/\1/p')
    {
        printf 'module witness/kube\ngo 1.26\nrequire k8s.io/kubernetes v%s\nreplace (\n' "$version"
        awk -v v="v$staging" '/^replace \(/ {f=1; next} /^\)/ {f=0} f && /=>/ {print "\t" $1 " => " $1 " " v}' "$mod"
        printf ')\n'
    } > go.mod
    printf 'package kube\nimport _ "k8s.io/kubernetes/cmd/kube-apiserver/app"\n' > tools.go
    go mod tidy -e
    x=k8s.io/component-base/version
    nice -n 10 go build -trimpath -ldflags "-s -w -X $x.gitVersion=v$version -X $x.gitMajor=1 -X $x.gitMinor=37" \
        -o "$folder/bin/" k8s.io/kubernetes/cmd/kube-apiserver
fi

cd "$folder/run"
rm -rf data && mkdir -p data certs-plain certs-all certs-off
openssl genrsa -out sa.key 2048 2> /dev/null
echo 'witness,admin,admin,system:masters' > tokens.csv
started=
trap 'kill -9 $started 2> /dev/null; exit' EXIT INT TERM
"$folder/bin/etcd" --unsafe-no-fsync --data-dir data --listen-client-urls "http://127.0.0.1:$((port + 2))" \
    --advertise-client-urls "http://127.0.0.1:$((port + 2))" --listen-peer-urls "http://127.0.0.1:$((port + 3))" --log-level error > etcd.log 2>&1 &
started=$!

serve() { # name, port, feature gates, where to store
    "$folder/bin/kube-apiserver" --etcd-servers "http://127.0.0.1:$((port + 2))" --etcd-prefix "/$4" --bind-address 127.0.0.1 --secure-port "$2" \
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
