{{/* A sentence for each value that is accepted and does nothing here, or that its owner should think about. */}}
{{- define "gdp.sentences" -}}
{{- $v := .root.Values -}}{{- $facts := .facts -}}
{{- $gfd := $v.gfd | default dict -}}
{{- $said := list -}}
{{- if $v.nfd -}}
  {{- $said = append $said "nfd: this chart installs no node-feature-discovery; install its own chart with these values if you need it (its master must allow the label prefix nvidia.com)." -}}
{{- end -}}
{{- if or (ne ($gfd.nameOverride | default "gpu-feature-discovery") "gpu-feature-discovery") $gfd.namespaceOverride -}}
  {{- $said = append $said "gfd.nameOverride, gfd.namespaceOverride: node labels come from the plugin's own pod; there is no other object to name." -}}
{{- end -}}
{{- if or $gfd.securityContext $gfd.resources $gfd.enableHostNetwork -}}
  {{- $said = append $said "gfd.securityContext, gfd.resources, gfd.enableHostNetwork: node labels come from the plugin's own pod and need nothing more." -}}
{{- end -}}
{{- if ($v.configManager | default dict).resources -}}
  {{- $said = append $said "configManager.resources: the node label is read by the plugin itself; there is no side-car." -}}
{{- end -}}
{{- if not (kindIs "invalid" $v.logVerbosity) -}}
  {{- $said = append $said "logVerbosity: levels have names here; use log.level (debug, info, warning, error)." -}}
{{- end -}}
{{- if and $gfd.enabled (eq $facts.labels "off") -}}
  {{- $said = append $said "gfd.enabled with labels.publish=off: no labels are published." -}}
{{- end -}}
{{- if not $v.devicePlugin.enabled -}}
  {{- $said = append $said (ternary "devicePlugin.enabled=false and no labels are asked for: nothing is installed." "devicePlugin.enabled=false: the pod only publishes node labels." (eq $facts.labels "off")) -}}
{{- end -}}
{{- if eq $v.image.repository "localhost/gpu-device-plugin" -}}
  {{- $said = append $said "image.repository: localhost/gpu-device-plugin is on your nodes only if you loaded it there; set it to where you pushed the image." -}}
{{- end -}}
{{- if and $v.image.tag (ne (toString $v.image.tag | trimPrefix "v") .root.Chart.AppVersion) -}}
  {{- $said = append $said (printf "image.tag %v: this chart was made with %s; a tag kept from NVIDIA's values must go." $v.image.tag .root.Chart.AppVersion) -}}
{{- end -}}
{{- if and $v.runtimeClassName (not (kindIs "map" $v.affinity)) (empty $v.nodeSelector) -}}
  {{- $said = append $said (printf "runtimeClassName %s: the pod goes only to nodes labelled nvidia.com/gpu.present=true or, by node-feature-discovery, as having an NVIDIA device, for nodes without that runtime could not start it; affinity={} lifts this." $v.runtimeClassName) -}}
{{- end -}}
{{- if $v.securityContext -}}
  {{- $said = append $said "securityContext replaces what the chart derives from the strategies." -}}
{{- end -}}
{{- if not $facts.unlabelled -}}
  {{- $who := ternary "nodes without the label nvidia.com/device-plugin.config do not start" "no node starts" $facts.configLabel -}}
  {{- $when := ternary (printf "config.name: where no fallback chooses a file of %s," $v.config.name) (printf "config.map: no fallback chooses among %s, and" (keys $facts.configs | sortAlpha | join ", ")) $facts.unknown -}}
  {{- $said = append $said (printf "%s %s; name config.default, or add empty to config.fallbackStrategies." $when $who) -}}
{{- end -}}
{{- if and $facts.unknown (not (kindIs "bool" $v.mps.enabled)) -}}
  {{- $said = append $said (printf "config.name: if a file of %s has sharing.mps, set mps.enabled=true, which runs the MPS control daemon." $v.config.name) -}}
{{- end -}}
{{- if and $facts.unknown $facts.ownCdi (empty $facts.roots) (empty $v.deviceListStrategy) (not $facts.mounted) -}}
  {{- $said = append $said (printf "config.name: if a file of %s uses CDI, set nvidiaDriverRoot, which mounts the driver's files." $v.config.name) -}}
{{- end -}}
{{- if and $facts.mpsDaemon (not $v.mps.enableHostPID) -}}
  {{- $said = append $said "mps.enableHostPID=false: where the driver knows processes by host PIDs the MPS server does not find its own clients." -}}
{{- end -}}
{{- if and (has "envvar" $facts.lists) (not $facts.cdi) (not $facts.volumeMounts) -}}
  {{- $said = append $said "deviceListStrategy envvar: an image that sets NVIDIA_VISIBLE_DEVICES=all sees every GPU of its node; cdi-cri and volume-mounts cannot be forged (docs/security.md)." -}}
{{- end -}}
{{- if and $v.metrics.enabled $v.devicePlugin.enableHostNetwork $v.networkPolicy.enabled -}}
  {{- $said = append $said "networkPolicy.enabled with devicePlugin.enableHostNetwork: network policies do not hold for pods on the host's network." -}}
{{- end -}}
{{- toJson $said -}}
{{- end -}}
