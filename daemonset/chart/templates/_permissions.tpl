{{/* What each switch of the cluster door asks of the API server; nothing is asked for a switch that is off. */}}
{{- define "gdp.rules" -}}
{{- $facts := .facts -}}{{- $cluster := .root.Values.cluster -}}
{{- if $facts.configLabel }}
- apiGroups: [""]
  resources: [nodes]
  verbs: [get, list, watch]
{{- end }}
{{- if or (eq $facts.labels "node") $cluster.condition }}
- apiGroups: [""]
  resources: [nodes]
  verbs: [get, patch]
{{- end }}
{{- if $cluster.condition }}
- apiGroups: [""]
  resources: [nodes/status]
  verbs: [patch]
{{- end }}
{{- if $cluster.events }}
- apiGroups: [""]
  resources: [nodes, pods]
  verbs: [get]
- apiGroups: [""]
  resources: [events]
  verbs: [create, patch]
{{- end }}
{{- if eq $facts.labels "node-feature" }}
- apiGroups: [nfd.k8s-sigs.io]
  resources: [nodefeatures]
  verbs: [get, create, patch]
{{- end }}
{{- end -}}
