{{/*
What the pod sees of the host: one row a mount, each there because of a fact. As JSON, a list of
{name, path (in the container), source (of the volume), readOnly, propagation}.
*/}}
{{- define "gdp.mounts" -}}
{{- $v := .root.Values -}}{{- $facts := .facts -}}
{{- $serving := $v.devicePlugin.enabled -}}
{{- $rows := list -}}
{{- if $serving -}}
  {{- $rows = append $rows (dict "name" "run" "path" "/run/gpu-device-plugin" "source" (dict "emptyDir" (dict "medium" "Memory" "sizeLimit" "1Mi"))) -}}
  {{- $rows = append $rows (dict "name" "device-plugins" "path" $v.kubelet.devicePlugins "host" $v.kubelet.devicePlugins "type" "Directory") -}}
  {{- if and $v.metrics.enabled (ne (include "gdp.onOff" $v.metrics.pods) "off") | or $v.cluster.events -}}
    {{- $rows = append $rows (dict "name" "pod-resources" "path" $v.kubelet.podResources "host" $v.kubelet.podResources "type" "DirectoryOrCreate" "readOnly" true) -}}
  {{- end -}}
  {{- if eq ($v.kubelet.registration | default "socket") "watcher" -}}
    {{- $rows = append $rows (dict "name" "plugins-registry" "path" $v.kubelet.pluginsRegistry "host" $v.kubelet.pluginsRegistry "type" "Directory") -}}
  {{- end -}}
  {{- with $v.daemon.stateDir -}}
    {{- $rows = append $rows (dict "name" "state" "path" . "host" . "type" "DirectoryOrCreate") -}}
  {{- end -}}
  {{- if $facts.cdi -}}
    {{- $folder := $v.cdi.folder | default "/var/run/cdi" -}}
    {{- $rows = append $rows (dict "name" "cdi" "path" $folder "host" $folder "type" "DirectoryOrCreate" "readOnly" (not $facts.ownCdi)) -}}
  {{- end -}}
  {{- if $facts.mps -}}
    {{- $rows = append $rows (dict "name" "mps-root" "path" "/mps" "host" $v.mps.root "type" "DirectoryOrCreate") -}}
    {{- $rows = append $rows (dict "name" "mps-shm" "path" "/dev/shm" "host" (printf "%s/shm" $v.mps.root) "type" "DirectoryOrCreate") -}}
  {{- end -}}
  {{- if and $v.health.injectFile -}}
    {{- $rows = append $rows (dict "name" "inject" "path" (dir $v.health.injectFile) "host" (dir $v.health.injectFile) "type" "DirectoryOrCreate" "readOnly" true) -}}
  {{- end -}}
  {{- with $v.metrics.tlsSecret -}}
    {{- $rows = append $rows (dict "name" "tls" "path" "/etc/gpu-device-plugin/tls" "source" (dict "secret" (dict "secretName" .)) "readOnly" true) -}}
  {{- end -}}
  {{- with $v.metrics.basicAuthSecret -}}
    {{- $rows = append $rows (dict "name" "basic-auth" "path" "/etc/gpu-device-plugin/basic-auth" "source" (dict "secret" (dict "secretName" .)) "readOnly" true) -}}
  {{- end -}}
{{- end -}}
{{- if eq $facts.labels "file" -}}
  {{- $rows = append $rows (dict "name" "features" "path" "/etc/kubernetes/node-feature-discovery/features.d" "host" "/etc/kubernetes/node-feature-discovery/features.d" "type" "DirectoryOrCreate") -}}
{{- end -}}
{{- concat $rows (fromJsonArray (include "gdp.driverMounts" .)) (fromJsonArray (include "gdp.configMounts" .)) | toJson -}}
{{- end -}}

{{/* How the driver and its device nodes are seen: not at all where the runtime brings all that is needed. */}}
{{- define "gdp.driverMounts" -}}
{{- $facts := .facts -}}
{{- $rows := list -}}
{{- $root := dict "name" "driver-root" "path" "/driver-root" "host" $facts.driverRoot "type" (ternary "Directory" "DirectoryOrCreate" (eq $facts.driverRoot "/")) "readOnly" true "propagation" "HostToContainer" -}}
{{- if $facts.mounted -}}
  {{- $rows = append $rows $root -}}
  {{- $rows = append $rows (dict "name" "dev" "path" "/dev" "host" "/dev" "type" "Directory" "propagation" "HostToContainer") -}}
{{- else -}}
  {{- if or (and $facts.ownCdi (or (not $facts.unknown) $facts.roots)) -}}
    {{- $rows = append $rows $root -}}
  {{- else if and $facts.nodes (hasPrefix "/driver-root" $facts.devSeen) -}}
    {{- $rows = append $rows (dict "name" "dev" "path" (printf "%s/dev" $facts.devSeen) "host" (printf "%s/dev" (trimSuffix "/" $facts.devRoot)) "type" (ternary "Directory" "DirectoryOrCreate" (eq $facts.devRoot "/")) "readOnly" true "propagation" "HostToContainer") -}}
  {{- end -}}
  {{- if $facts.volumeMounts -}}
    {{- $rows = append $rows (dict "name" "all-gpus" "path" "/var/run/nvidia-container-devices/all" "host" "/dev/null" "type" "CharDevice" "readOnly" true) -}}
  {{- end -}}
{{- end -}}
{{- toJson $rows -}}
{{- end -}}

{{- define "gdp.configMounts" -}}
{{- $name := include "gdp.configMapName" .root -}}
{{- $rows := list -}}
{{- if $name -}}
  {{- $rows = append $rows (dict "name" "configs" "path" "/etc/gpu-device-plugin/configs" "source" (dict "configMap" (dict "name" $name)) "readOnly" true) -}}
{{- end -}}
{{- toJson $rows -}}
{{- end -}}

{{/* volumeMounts of a list of rows. */}}
{{- define "gdp.volumeMounts" -}}
{{- range . }}
- name: {{ .name }}
  mountPath: {{ .path }}
  {{- if .readOnly }}
  readOnly: true
  {{- end }}
  {{- with .propagation }}
  mountPropagation: {{ . }}
  {{- end }}
{{- end }}
{{- end -}}

{{/* volumes of a list of rows. */}}
{{- define "gdp.volumes" -}}
{{- range . }}
- name: {{ .name }}
  {{- if .host }}
  hostPath:
    path: {{ .host }}
    type: {{ .type }}
  {{- else }}
  {{- toYaml .source | nindent 2 }}
  {{- end }}
{{- end }}
{{- end -}}

{{- define "gdp.mpsMounts" -}}
{{- $root := .root.Values.mps.root -}}
{{- $rows := list
  (dict "name" "run" "path" "/run/gpu-device-plugin" "source" (dict "emptyDir" (dict "medium" "Memory" "sizeLimit" "1Mi")))
  (dict "name" "mps-root" "path" "/mps" "host" $root "type" "DirectoryOrCreate")
  (dict "name" "mps-shm" "path" "/dev/shm" "host" (printf "%s/shm" $root) "type" "DirectoryOrCreate")
-}}
{{- if and .facts.configLabel .root.Values.daemon.stateDir -}}
  {{- /* Where the plugin notes which configuration the node label chose. */ -}}
  {{- $rows = append $rows (dict "name" "state" "path" .root.Values.daemon.stateDir "host" .root.Values.daemon.stateDir "type" "DirectoryOrCreate" "readOnly" true) -}}
{{- end -}}
{{- if .facts.mounted -}}
  {{- $rows = concat (fromJsonArray (include "gdp.driverMounts" .)) $rows -}}
{{- end -}}
{{- toJson $rows -}}
{{- end -}}
