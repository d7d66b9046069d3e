{{/* What the plugin's pod and the MPS daemon's have in common. */}}
{{- define "gdp.placement" -}}
{{- with .Values.priorityClassName }}
priorityClassName: {{ . }}
{{- end }}
{{- with .Values.runtimeClassName }}
runtimeClassName: {{ . }}
{{- end }}
{{- with .Values.imagePullSecrets }}
imagePullSecrets:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .Values.podSecurityContext }}
securityContext:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .Values.nodeSelector }}
nodeSelector:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with (fromYaml (include "gdp.affinity" .)) }}
affinity:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .Values.tolerations }}
tolerations:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- end -}}

{{/* With a runtime class, and unless told otherwise: nodes that say they have a GPU, for others may lack the runtime. */}}
{{- define "gdp.affinity" -}}
{{- if kindIs "map" .Values.affinity -}}
{{- toYaml .Values.affinity -}}
{{- else if and .Values.runtimeClassName (empty .Values.nodeSelector) -}}
nodeAffinity:
  requiredDuringSchedulingIgnoredDuringExecution:
    nodeSelectorTerms:
    {{- range $label := list "nvidia.com/gpu.present" "feature.node.kubernetes.io/pci-10de.present" "feature.node.kubernetes.io/pci-0302_10de.present" "feature.node.kubernetes.io/pci-0300_10de.present" }}
    - matchExpressions:
      - {key: {{ $label }}, operator: In, values: ["true"]}
    {{- end }}
{{- end -}}
{{- end -}}

{{- define "gdp.podAnnotations" -}}
{{- $annotations := deepCopy (.Values.podAnnotations | default dict) -}}
{{- toYaml $annotations -}}
{{- end -}}
