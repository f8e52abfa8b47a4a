{{- /* What the schema of values can't say. Prints nothing. */ -}}
{{- $namespace := include "virt-dra.namespace" . -}}
{{- if has $namespace (list "default" "kube-system" "kube-public" "kube-node-lease") -}}
{{- fail (printf "namespace: %s belongs to the cluster; give virt-dra a namespace of its own" $namespace) -}}
{{- end -}}
{{- if ne .Values.overlay "standalone" -}}
{{- range list "vmNamespaceLabel" "launcherPullSecrets" "launcherPriority" -}}
{{- if index $.Values . -}}
{{- fail (printf "%s goes with overlay=standalone: beside KubeVirt, KubeVirt creates the pods" .) -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- if and .Values.runbooksURL (not .Values.monitoring.enabled) -}}
{{- fail "runbooksURL goes with monitoring.enabled" -}}
{{- end -}}
