{{/* Names and labels are those that NVIDIA's chart gives: `helm upgrade` of its release finds its own DaemonSet. */}}

{{- define "gdp.name" -}}
{{- default "nvidia-device-plugin" .Values.nameOverride | trunc 63 | regexFind "^.*[a-z0-9]" -}}
{{- end -}}

{{- define "gdp.fullname" -}}
{{- $name := include "gdp.name" . -}}
{{- if .Values.fullnameOverride -}}
{{- .Values.fullnameOverride | trunc 63 | regexFind "^.*[a-z0-9]" -}}
{{- else if contains $name .Release.Name -}}
{{- .Release.Name | trunc 63 | regexFind "^.*[a-z0-9]" -}}
{{- else -}}
{{- printf "%s-%s" .Release.Name $name | trunc 63 | regexFind "^.*[a-z0-9]" -}}
{{- end -}}
{{- end -}}

{{/* (dict "root" . "suffix" "configs"): a name for something beside the DaemonSet. */}}
{{- define "gdp.nameOf" -}}
{{- printf "%s-%s" (include "gdp.fullname" .root | trunc (int (sub 62 (len .suffix))) | regexFind "^.*[a-z0-9]") .suffix -}}
{{- end -}}

{{- define "gdp.namespace" -}}
{{- .Values.namespaceOverride | default .Release.Namespace -}}
{{- end -}}

{{- define "gdp.podLabels" -}}
{{- $labels := dict "app.kubernetes.io/name" (include "gdp.name" .) "app.kubernetes.io/instance" .Release.Name "app.kubernetes.io/component" "device-plugin" -}}
{{- toYaml (merge (deepCopy (.Values.selectorLabelsOverride | default dict)) $labels) -}}
{{- end -}}

{{- define "gdp.selector" -}}
{{- $labels := dict "app.kubernetes.io/name" (include "gdp.name" .) "app.kubernetes.io/instance" .Release.Name -}}
{{- if (.Values.componentSelectorLabels | default dict).enabled -}}
{{- $_ := set $labels "app.kubernetes.io/component" "device-plugin" -}}
{{- end -}}
{{- toYaml (.Values.selectorLabelsOverride | default $labels) -}}
{{- end -}}

{{/* Labels of an object; the pods' without their component, and who made it from what. */}}
{{- define "gdp.labels" -}}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" | trunc 63 | trimSuffix "-" }}
app.kubernetes.io/name: {{ include "gdp.name" . }}
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
{{- end -}}

{{- define "gdp.image" -}}
{{- $tag := toString (.Values.image.tag | default .Chart.AppVersion) -}}
{{- if contains "@" .Values.image.repository -}}
{{- .Values.image.repository -}}
{{- else -}}
{{- printf "%s%s%s" .Values.image.repository (ternary "@" ":" (hasPrefix "sha256:" $tag)) $tag -}}
{{- end -}}
{{- end -}}

{{- define "gdp.configMapName" -}}
{{- if .Values.config.name -}}
{{- .Values.config.name -}}
{{- else if .Values.config.map -}}
{{- include "gdp.nameOf" (dict "root" . "suffix" "configs") -}}
{{- end -}}
{{- end -}}

{{- define "gdp.serviceAccountName" -}}
{{- .Values.serviceAccount.name | default (include "gdp.nameOf" (dict "root" . "suffix" "service-account")) -}}
{{- end -}}
