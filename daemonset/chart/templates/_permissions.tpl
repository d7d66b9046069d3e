{{/*
What each switch of the cluster door asks of the API server; nothing is asked for a switch that is off. A watch cannot
be limited to the pod's own node by RBAC, nor can a patch: docs/security.md says what that means.
*/}}
{{- define "gdp.clusterRules" -}}
{{- $facts := .facts -}}{{- $cluster := .root.Values.cluster -}}
{{- $node := list -}}
{{- if $facts.configLabel -}}{{- $node = concat $node (list "get" "watch") -}}{{- end -}}
{{- if eq $facts.labels "node" -}}{{- $node = append $node "patch" -}}{{- end -}}
{{- if $cluster.condition -}}{{- $node = concat $node (list "get" "patch") -}}{{- end -}}
{{- with $node }}
- apiGroups: [""]
  resources: [nodes]
  verbs: [{{ uniq . | sortAlpha | join ", " }}]
{{- end }}
{{- if $cluster.condition }}
- apiGroups: [""]
  resources: [nodes/status]
  verbs: [patch]
{{- end }}
{{- if $cluster.events }}
- apiGroups: [""]
  resources: [pods]
  verbs: [get]
- apiGroups: [""]
  resources: [events]
  verbs: [create]
{{- end }}
{{- end -}}

{{/* The same in the release's own namespace. A server-side apply of what is not there yet is a creation, too. */}}
{{- define "gdp.namespaceRules" -}}
{{- if eq .facts.labels "node-feature" }}
- apiGroups: [nfd.k8s-sigs.io]
  resources: [nodefeatures]
  verbs: [create, patch]
{{- end }}
{{- end -}}
