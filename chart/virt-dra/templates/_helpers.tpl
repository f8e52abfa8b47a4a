{{/* Where virt-dra itself is: never in a namespace of the cluster's, which Helm installs into where none is named. */}}
{{- define "virt-dra.namespace" -}}
{{- if .Values.namespace -}}
{{- .Values.namespace -}}
{{- else if has .Release.Namespace (list "default" "kube-system" "kube-public" "kube-node-lease") -}}
virt-dra
{{- else -}}
{{- .Release.Namespace -}}
{{- end -}}
{{- end -}}

{{- define "virt-dra.image" -}}
{{- .Values.image | default (printf "virt-dra:%s" .Chart.AppVersion) -}}
{{- end -}}

{{- define "virt-dra.launcherImage" -}}
{{- .Values.launcherImage | default (printf "virt-dra-launcher:%s" .Chart.AppVersion) -}}
{{- end -}}

{{/* What the policy of launcher pods compares them with, by the operator's arguments, of which the last counts. */}}
{{- define "virt-dra.lastLauncherImage" -}}
{{- $image := include "virt-dra.launcherImage" . -}}
{{- range .Values.operator.arguments -}}
{{- if hasPrefix "--launcher-image=" . -}}
{{- $image = trimPrefix "--launcher-image=" . -}}
{{- end -}}
{{- end -}}
{{- $image -}}
{{- end -}}

{{/* Items of a list of CEL that is begun: each with a comma before it. */}}
{{- define "virt-dra.launcherArguments" -}}
{{- range .Values.operator.arguments -}}
{{- if hasPrefix "--launcher-argument=" . -}}
{{- printf ", %s" (trimPrefix "--launcher-argument=" . | toRawJson) -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{/* Items of a list of CEL. */}}
{{- define "virt-dra.launcherPullSecrets" -}}
{{- range $index, $name := .Values.launcherPullSecrets -}}
{{- if $index }}, {{ end -}}
{{- toRawJson $name -}}
{{- end -}}
{{- end -}}

{{/* "true" where the gate Sidecar is on, of which the last mention counts, too. */}}
{{- define "virt-dra.hookSidecars" -}}
{{- $on := "" -}}
{{- range .Values.operator.arguments -}}
{{- if hasPrefix "--kubevirt-gates=" . -}}
{{- range splitList "," (trimPrefix "--kubevirt-gates=" .) -}}
{{- $gate := splitn "=" 2 . -}}
{{- if eq (trim $gate._0) "Sidecar" -}}
{{- $on = ternary "true" "" (or (not (contains "=" .)) (eq (lower (trim (default "" $gate._1))) "true")) -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- $on -}}
{{- end -}}
