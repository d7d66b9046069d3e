{{/*
The one place that decides what the pod may do, and why. As JSON: privileged and sysAdmin, each a list of reasons; an
empty list means that it is not given. Tables of this are in docs/security.md.
*/}}
{{- define "gdp.privilege" -}}
{{- $facts := . -}}
{{- $privileged := list -}}
{{- $sysAdmin := list -}}
{{- if $facts.mounted -}}
  {{- $privileged = append $privileged "driver.access=mounted: no runtime brings the driver's device nodes, so the pod opens the host's" -}}
{{- else if $facts.mig -}}
  {{- if and $facts.unknown (gt (len $facts.migs) 1) -}}
    {{- $sysAdmin = append $sysAdmin "config.name: a file in that ConfigMap may choose a MIG strategy; set migStrategy to decide it here" -}}
  {{- else -}}
    {{- $sysAdmin = append $sysAdmin (printf "migStrategy %s: the runtime honours NVIDIA_MIG_MONITOR_DEVICES only with it" (without $facts.migs "none" | join ", ")) -}}
  {{- end -}}
{{- end -}}
{{- toJson (dict "privileged" $privileged "sysAdmin" $sysAdmin) -}}
{{- end -}}

{{/* The plugin's security context. uid 0 always: the kubelet's folder is root's, mode 0750. */}}
{{- define "gdp.securityContext" -}}
{{- $privilege := fromJson (include "gdp.privilege" .) -}}
{{- if $privilege.privileged -}}
privileged: true
readOnlyRootFilesystem: true
runAsUser: 0
{{- else -}}
allowPrivilegeEscalation: false
capabilities:
  drop: [ALL]
  {{- if $privilege.sysAdmin }}
  add: [SYS_ADMIN]
  {{- end }}
readOnlyRootFilesystem: true
runAsUser: 0
seccompProfile:
  type: RuntimeDefault
{{- end -}}
{{- end -}}

{{/* The reasons in one line; empty where nothing beyond the least is given. */}}
{{- define "gdp.why" -}}
{{- $privilege := fromJson (include "gdp.privilege" .) -}}
{{- $why := list -}}
{{- range $privilege.privileged -}}{{- $why = append $why (printf "privileged - %s" .) -}}{{- end -}}
{{- range $privilege.sysAdmin -}}{{- $why = append $why (printf "SYS_ADMIN - %s" .) -}}{{- end -}}
{{- join "; " $why -}}
{{- end -}}
