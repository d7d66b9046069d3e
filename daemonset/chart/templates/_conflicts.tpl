{{/* Values that contradict each other, each with its remedy; all of them at once. */}}
{{- define "gdp.conflicts" -}}
{{- $v := .root.Values -}}{{- $facts := .facts -}}
{{- $wrong := list -}}
{{- if and (eq (include "gdp.namespace" .root) "default") (not $v.allowDefaultNamespace) -}}
  {{- $wrong = append $wrong "the release would go to the namespace default: use --namespace, or set allowDefaultNamespace=true" -}}
{{- end -}}
{{- if hasPrefix "nvcr.io/" $v.image.repository -}}
  {{- $wrong = append $wrong (printf "image.repository %s is NVIDIA's own plugin: name the image built from daemonset/Dockerfile" $v.image.repository) -}}
{{- end -}}
{{- if and $v.config.name $v.config.map -}}
  {{- $wrong = append $wrong "config.name and config.map are both given: keep the ConfigMap that exists (name) or the files written here (map)" -}}
{{- end -}}
{{- if and $v.config.default $v.config.map (not (hasKey ($v.config.map | default dict) $v.config.default)) -}}
  {{- $wrong = append $wrong (printf "config.default %s is no file of config.map (%s)" $v.config.default (keys $v.config.map | sortAlpha | join ", ")) -}}
{{- end -}}
{{- if and (not $facts.unlabelled) (not $facts.configLabel) (not $facts.unknown) -}}
  {{- $wrong = append $wrong (printf "config.map: nothing chooses among %s, and no node would start: name config.default, add empty to config.fallbackStrategies, or set cluster.configLabel=true" (keys $facts.configs | sortAlpha | join ", ")) -}}
{{- end -}}
{{- if and (kindIs "slice" $v.deviceListStrategy) (empty $v.deviceListStrategy) -}}
  {{- $wrong = append $wrong "deviceListStrategy is an empty list, and pods would get no GPU: name one of envvar, volume-mounts, cdi-annotations, cdi-cri, or write null for what the configuration file says" -}}
{{- end -}}
{{- range $name, $config := $facts.configs -}}
  {{- if and (hasKey $config "Error") (not (kindIs "map" $config.Error)) -}}
    {{- $wrong = append $wrong (printf "config.map.%s is not YAML: %s" $name $config.Error) -}}
  {{- else -}}
    {{- $sharing := $config.sharing | default dict -}}
    {{- $mig := $v.migStrategy | default (($config.flags | default dict).migStrategy | default "none") -}}
    {{- if and (hasKey $sharing "mps") (ne $mig "none") -}}
      {{- $wrong = append $wrong (printf "config.map.%s shares by MPS under migStrategy %s: MPS is for whole GPUs; use migStrategy none, or timeSlicing" $name $mig) -}}
    {{- end -}}
    {{- if and (hasKey $sharing "mps") (hasKey $sharing "timeSlicing") -}}
      {{- $wrong = append $wrong (printf "config.map.%s has sharing.mps and sharing.timeSlicing: one node shares one way; make two files and choose by node label" $name) -}}
    {{- end -}}
  {{- end -}}
{{- end -}}
{{- if and $facts.mpsDaemon (not (or $facts.unknown $facts.mps)) -}}
  {{- $wrong = append $wrong "mps.enabled=true, but no file of config.map has sharing.mps: add it, or leave mps.enabled at null" -}}
{{- end -}}
{{- if and $facts.mpsDaemon $facts.unknown $v.migStrategy (ne ($v.migStrategy | default "none") "none") -}}
  {{- $wrong = append $wrong (printf "mps.enabled=true under migStrategy %s: MPS is for whole GPUs; use migStrategy none" $v.migStrategy) -}}
{{- end -}}
{{- if and $facts.mpsDaemon $facts.configLabel (not $v.daemon.stateDir) -}}
  {{- $wrong = append $wrong "daemon.stateDir is empty, but the MPS control daemon reads there which configuration the node label chose: set it, or cluster.configLabel=false" -}}
{{- end -}}
{{- if and $facts.ownCdi (not $facts.unknown) (empty $facts.roots) (not $facts.mounted) -}}
  {{- $wrong = append $wrong (printf "deviceListStrategy %s writes CDI specifications from the driver's files: set nvidiaDriverRoot to where the driver is on the host (/ if it is installed there), or cdi.spec=external" (join "," $facts.lists)) -}}
{{- end -}}
{{- if and $facts.unknown $facts.ownCdi $v.deviceListStrategy (empty $facts.roots) (not $facts.mounted) -}}
  {{- $wrong = append $wrong "deviceListStrategy names CDI, which needs the driver's files: set nvidiaDriverRoot to where the driver is on the host (/ if it is installed there), or cdi.spec=external" -}}
{{- end -}}
{{- if gt (len $facts.roots) 1 -}}
  {{- $wrong = append $wrong (printf "files of config.map name several nvidiaDriverRoot (%s), and one pod can mount one: set nvidiaDriverRoot here, or make a release for each with nodeSelector" (join ", " $facts.roots)) -}}
{{- end -}}
{{- if and (not $facts.mounted) (or $facts.nodes $facts.ownCdi) (not $facts.unknown) (not (hasPrefix "/driver-root" $facts.devSeen)) -}}
  {{- $wrong = append $wrong (printf "nvidiaDevRoot %s is outside nvidiaDriverRoot %s, where this pod cannot see device nodes: set driver.access=mounted" $facts.devRoot $facts.driverRoot) -}}
{{- end -}}
{{- if and $facts.mounted (ne $facts.devRoot "/") -}}
  {{- $wrong = append $wrong (printf "driver.access=mounted opens the host's own /dev, but the device nodes are under %s: set nvidiaDevRoot=/ if they are in the host's /dev, else driver.access=runtime" $facts.devRoot) -}}
{{- end -}}
{{- if and $facts.mounted $v.runtimeClassName -}}
  {{- $wrong = append $wrong "driver.access=mounted needs no runtime: drop runtimeClassName, or use driver.access=runtime" -}}
{{- end -}}
{{- if and $facts.mounted $v.securityContext (not $v.securityContext.privileged) -}}
  {{- $wrong = append $wrong "driver.access=mounted needs privileged, but securityContext replaces what the chart derives: add privileged: true there, or leave it empty" -}}
{{- end -}}
{{- if eq ($v.deviceDiscoveryStrategy | default "auto") "tegra" -}}
  {{- $wrong = append $wrong "deviceDiscoveryStrategy tegra: this plugin finds GPUs by NVML only; stay with NVIDIA's plugin on Tegra nodes" -}}
{{- end -}}
{{- if not $v.metrics.enabled -}}
  {{- range $what := list "podMonitor" "prometheusRule" "dashboard" -}}
    {{- if (index $v.monitoring $what).enabled -}}
      {{- $wrong = append $wrong (printf "monitoring.%s.enabled needs metrics.enabled=true" $what) -}}
    {{- end -}}
  {{- end -}}
{{- end -}}
{{- if and $v.metrics.clientCA (not $v.metrics.tlsSecret) -}}
  {{- $wrong = append $wrong "metrics.clientCA needs metrics.tlsSecret with tls.crt, tls.key and ca.crt" -}}
{{- end -}}
{{- if $v.monitoring.podMonitor.enabled -}}
  {{- $scrape := $v.monitoring.podMonitor.endpoint | default dict -}}
  {{- $known := or $v.monitoring.podMonitor.basicAuthSecret $scrape.basicAuth $scrape.authorization -}}
  {{- if and $v.metrics.basicAuthSecret (not $known) -}}
    {{- $wrong = append $wrong (printf "metrics.basicAuthSecret %s asks for a password, and Prometheus has none, for it cannot read that Secret's lines: set monitoring.podMonitor.basicAuthSecret to a Secret with the keys username and password of one of those users (it may be the same Secret), or monitoring.podMonitor.endpoint.basicAuth" $v.metrics.basicAuthSecret) -}}
  {{- end -}}
  {{- if and $v.monitoring.podMonitor.basicAuthSecret (not $v.metrics.basicAuthSecret) -}}
    {{- $wrong = append $wrong (printf "monitoring.podMonitor.basicAuthSecret %s would be sent to a plugin that asks nobody for a password: set metrics.basicAuthSecret, or drop it" $v.monitoring.podMonitor.basicAuthSecret) -}}
  {{- end -}}
  {{- $tls := $scrape.tlsConfig | default dict -}}
  {{- if and $v.metrics.clientCA (not (or $tls.cert $tls.certFile)) -}}
    {{- $wrong = append $wrong "metrics.clientCA asks for a client's certificate, and Prometheus has none: set cert and keySecret in monitoring.podMonitor.endpoint.tlsConfig" -}}
  {{- end -}}
{{- end -}}
{{- $surge := toString (((($v.updateStrategy | default dict).rollingUpdate) | default dict).maxSurge | default "0") -}}
{{- if and $v.devicePlugin.enableHostNetwork $v.metrics.enabled (not (has $surge (list "0" "0%"))) -}}
  {{- $wrong = append $wrong (printf "updateStrategy.rollingUpdate.maxSurge %s with devicePlugin.enableHostNetwork: two pods on a node cannot have one metrics port; use maxSurge 0" $surge) -}}
{{- end -}}
{{- if and (not $v.devicePlugin.enabled) $facts.mpsDaemon -}}
  {{- $wrong = append $wrong "mps.enabled=true needs devicePlugin.enabled=true: nobody would hand the shares out" -}}
{{- end -}}
{{- if $wrong -}}
  {{- fail (printf "\n  - %s\n" (join "\n  - " $wrong)) -}}
{{- end -}}
{{- end -}}
