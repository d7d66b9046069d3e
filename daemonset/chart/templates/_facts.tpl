{{/*
What the values, and the configuration files in config.map, make possible on some node. Everything that the pod is
given follows from these facts; nothing else in the chart looks at a strategy. As JSON:

  configs       name -> configuration file
  unknown       the files are in a ConfigMap that the chart cannot read
  migs, lists   MIG and device list strategies that may be in force
  nodes, mps    device nodes may be handed over, so the host's /dev must be seen; MPS may be in force
  mig, cdi, ownCdi, volumeMounts   what the two lists come to
  mounted       the driver is mounted, not brought by the runtime
  driverRoot, devRoot, devSeen     host paths, and where the plugin looks for the host's /dev
  configLabel, cluster, labels     what is asked of the Kubernetes API and of the labels
  unlabelled    a configuration holds on nodes without the label, as far as it can be seen here
*/}}
{{- define "gdp.facts" -}}
{{- $v := .Values -}}
{{- $configs := dict -}}
{{- $migs := list -}}{{- $lists := list -}}{{- $specs := list -}}{{- $roots := list -}}
{{- $mps := false -}}{{- $imex := false -}}
{{- range $name, $text := $v.config.map -}}
  {{- $config := fromYaml (default "{}" $text) -}}
  {{- $shapes := fromJsonArray (include "gdp.shapes" $config) -}}
  {{- if $shapes -}}{{- fail (printf "\n  - config.map.%s: %s\n" $name (join "; " $shapes)) -}}{{- end -}}
  {{- $flags := $config.flags | default dict -}}
  {{- $plugin := $flags.plugin | default dict -}}
  {{- $_ := set $configs $name $config -}}
  {{- $migs = append $migs ($flags.migStrategy | default "none") -}}
  {{- $lists = concat $lists (fromJsonArray (include "gdp.words" ($plugin.deviceListStrategy | default "envvar"))) -}}
  {{- $specs = append $specs ($plugin.passDeviceSpecs | default false) -}}
  {{- with $flags.nvidiaDriverRoot -}}{{- $roots = append $roots . -}}{{- end -}}
  {{- $imex = or $imex (not (empty ($config.imex | default dict).channelIDs)) -}}
  {{- $mps = or $mps (hasKey ($config.sharing | default dict) "mps") -}}
{{- end -}}
{{- $unknown := not (empty $v.config.name) -}}
{{- $migs = ternary (list "none" "single" "mixed") ($migs | default (list "none")) $unknown -}}
{{- $lists = ternary (list "envvar" "volume-mounts" "cdi-annotations" "cdi-cri") ($lists | default (list "envvar")) $unknown -}}
{{- with $v.migStrategy -}}{{- $migs = list . -}}{{- end -}}
{{- with $v.deviceListStrategy -}}{{- $lists = fromJsonArray (include "gdp.words" .) -}}{{- end -}}
{{- with $v.nvidiaDriverRoot -}}{{- $roots = list . -}}{{- end -}}
{{- if kindIs "slice" $v.imex.channelIDs -}}{{- $imex = not (empty $v.imex.channelIDs) -}}{{- end -}}
{{- $pass := or $unknown (has true $specs) -}}
{{- if kindIs "bool" $v.compatWithCPUManager -}}{{- $pass = $v.compatWithCPUManager -}}{{- end -}}
{{- $cdi := or (has "cdi-cri" $lists) (has "cdi-annotations" $lists) -}}
{{- $mounted := eq $v.driver.access "mounted" -}}
{{- $driverRoot := first ($roots | default (list "/")) -}}
{{- $devRoot := $v.nvidiaDevRoot | default $driverRoot -}}
{{- $prefix := trimSuffix "/" $driverRoot -}}
{{- $devSeen := $devRoot -}}
{{- if or (eq (trimSuffix "/" $devRoot) $prefix) (hasPrefix (printf "%s/" $prefix) $devRoot) -}}
  {{- $devSeen = printf "/driver-root%s" (trimPrefix $prefix (trimSuffix "/" $devRoot)) -}}
{{- end -}}
{{- $label := or $unknown (gt (len $configs) 1) -}}
{{- if kindIs "bool" $v.cluster.configLabel -}}{{- $label = $v.cluster.configLabel -}}{{- end -}}
{{- $fallbacks := ternary $v.config.fallbackStrategies (list "named" "single") (kindIs "slice" $v.config.fallbackStrategies) -}}
{{- $unlabelled := or (not (empty $v.config.default)) (has "empty" $fallbacks) (not (include "gdp.configMapName" .)) -}}
{{- if and (has "single" $fallbacks) (eq (len $configs) 1) -}}{{- $unlabelled = true -}}{{- end -}}
{{- range $name := list "default" "default.yaml" "default.yml" "default.json" -}}
  {{- if and (has "named" $fallbacks) (hasKey $configs $name) -}}{{- $unlabelled = true -}}{{- end -}}
{{- end -}}
{{- range (($v.devicePlugin.containers | default dict).main | default dict).env -}}
  {{- if has .name (list "CONFIG_FILE" "CONFIG_NAME" "DEFAULT_CONFIG" "FALLBACK_STRATEGIES") -}}{{- $unlabelled = true -}}{{- end -}}
{{- end -}}
{{- $labels := include "gdp.onOff" $v.labels.publish | default (ternary "file" "off" (eq $v.gfd.enabled true)) -}}
{{- $facts := dict
  "configs" $configs
  "unknown" $unknown
  "migs" (uniq $migs)
  "lists" (uniq $lists)
  "nodes" (or $pass $imex)
  "mps" (or $unknown $mps)
  "mpsDaemon" (ternary $v.mps.enabled $mps (kindIs "bool" $v.mps.enabled))
  "mig" (ne (join "," (uniq $migs)) "none")
  "cdi" $cdi
  "ownCdi" (and $cdi (ne ($v.cdi.spec | default "own") "external"))
  "volumeMounts" (has "volume-mounts" $lists)
  "mounted" $mounted
  "roots" (uniq $roots)
  "driverRoot" $driverRoot
  "devRoot" $devRoot
  "devSeen" $devSeen
  "configLabel" $label
  "unlabelled" $unlabelled
  "labels" $labels
  "cluster" (or $label $v.cluster.events $v.cluster.condition (has $labels (list "node" "node-feature")))
-}}
{{- toJson $facts -}}
{{- end -}}

{{/* What this chart reads of a configuration file and cannot, since it is no mapping or list; as a JSON list. */}}
{{- define "gdp.shapes" -}}
{{- $wrong := list -}}
{{- range $path := list "flags" "flags.plugin" "sharing" "sharing.mps" "sharing.timeSlicing" "imex" -}}
  {{- $here := $ -}}
  {{- range $key := splitList "." $path -}}
    {{- $here = ternary (get (ternary $here dict (kindIs "map" $here)) $key) "" (and (kindIs "map" $here) (hasKey (ternary $here dict (kindIs "map" $here)) $key)) -}}
  {{- end -}}
  {{- if not (or (kindIs "map" $here) (kindIs "invalid" $here) (eq (toString $here) "")) -}}
    {{- $wrong = append $wrong (printf "%s must be a mapping, and is %s" $path (toJson $here)) -}}
  {{- end -}}
{{- end -}}
{{- if not $wrong -}}
  {{- $listed := ((($.flags | default dict).plugin) | default dict).deviceListStrategy | default "" -}}
  {{- if not (or (kindIs "string" $listed) (kindIs "slice" $listed)) -}}
    {{- $wrong = append $wrong (printf "flags.plugin.deviceListStrategy must be a name or a list of names, and is %s" (toJson $listed)) -}}
  {{- end -}}
{{- end -}}
{{- toJson $wrong -}}
{{- end -}}

{{/* A word, words with commas, or a list, as a JSON list. */}}
{{- define "gdp.words" -}}
{{- $words := list -}}
{{- range (kindIs "string" . | ternary (splitList "," (toString .)) .) -}}
  {{- $words = append $words (trim (toString .)) -}}
{{- end -}}
{{- toJson (without $words "") -}}
{{- end -}}
