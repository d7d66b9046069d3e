{{/* Value -> variable of the program (docs/configuration.md). A value that is null is left to the file. */}}
{{- define "gdp.variables" -}}
migStrategy: MIG_STRATEGY
failOnInitError: FAIL_ON_INIT_ERROR
compatWithCPUManager: PASS_DEVICE_SPECS
deviceListStrategy: DEVICE_LIST_STRATEGY
deviceIDStrategy: DEVICE_ID_STRATEGY
nvidiaDriverRoot: NVIDIA_DRIVER_ROOT
nvidiaDevRoot: NVIDIA_DEV_ROOT
gdrcopyEnabled: GDRCOPY_ENABLED
gdsEnabled: GDS_ENABLED
mofedEnabled: MOFED_ENABLED
deviceDiscoveryStrategy: DEVICE_DISCOVERY_STRATEGY
sharedDevicesAllocationPolicy: SHARED_DEVICES_ALLOCATION_POLICY
gfd.noTimestamp: GFD_NO_TIMESTAMP
gfd.sleepInterval: GFD_SLEEP_INTERVAL
cdi.nvidiaHookPath: NVIDIA_CDI_HOOK_PATH
cdi.featureFlags: CDI_FEATURE_FLAGS
cdi.disableHooks: CDI_DISABLE_HOOKS
cdi.annotationPrefix: CDI_ANNOTATION_PREFIX
cdi.spec: CDI_SPEC
cdi.folder: CDI_FOLDER
imex.channelIDs: IMEX_CHANNEL_IDS
imex.required: IMEX_REQUIRED
driver.nvmlLibrary: NVML_LIBRARY
devices.include: DEVICES_INCLUDE
devices.exclude: DEVICES_EXCLUDE
kubelet.registration: REGISTRATION
daemon.rescanInterval: RESCAN_INTERVAL
daemon.vanishedGrace: VANISHED_GRACE
daemon.releaseTimeout: RELEASE_TIMEOUT
log.format: LOG_FORMAT
log.level: LOG_LEVEL
health.fatal: HEALTH_FATAL
health.ignored: HEALTH_IGNORED
health.recoverable: HEALTH_RECOVERABLE
health.unknownXid: HEALTH_UNKNOWN_XID
health.quietPeriod: HEALTH_QUIET_PERIOD
health.ecc: HEALTH_ECC
health.remapPending: HEALTH_REMAP_PENDING
health.remapFailure: HEALTH_REMAP_FAILURE
health.recoveryAction: HEALTH_RECOVERY_ACTION
health.fabric: HEALTH_FABRIC
health.nvlink: HEALTH_NVLINK
health.onCheckFailure: HEALTH_ON_CHECK_FAILURE
health.injectFile: HEALTH_INJECT_FILE
health.interval: HEALTH_INTERVAL
metrics.interval: METRICS_INTERVAL
metrics.dcgmNames: METRICS_DCGM_NAMES
metrics.perLink: METRICS_PER_LINK
{{- end -}}

{{/* `on` and `off` without quotes are true and false in YAML 1.1; here they are words again. Empty for null. */}}
{{- define "gdp.onOff" -}}
{{- if kindIs "bool" . -}}{{- ternary "on" "off" . -}}{{- else -}}{{- . | default "" -}}{{- end -}}
{{- end -}}

{{/* A value as the text of a variable; an empty one would be one not given, so the empty list is the word none. */}}
{{- define "gdp.text" -}}
{{- if kindIs "slice" . -}}
  {{- $words := list -}}
  {{- range . -}}{{- $words = append $words (include "gdp.text" .) -}}{{- end -}}
  {{- join "," $words | default "none" -}}
{{- else if kindIs "float64" . -}}
  {{- ternary (int64 . | toString) (toString .) (eq (floor .) .) -}}
{{- else -}}
  {{- toString . -}}
{{- end -}}
{{- end -}}

{{/* What the values say, and what follows from them: a mapping of variable to text. */}}
{{- define "gdp.settings" -}}
{{- $v := .root.Values -}}{{- $facts := .facts -}}
{{- $settings := dict -}}
{{- range $path, $variable := fromYaml (include "gdp.variables" .) -}}
  {{- $value := $v -}}
  {{- range splitList "." $path -}}
    {{- $value = ternary (get ($value | default dict) .) nil (kindIs "map" $value) -}}
  {{- end -}}
  {{- if not (or (kindIs "invalid" $value) (and (kindIs "string" $value) (empty $value))) -}}
    {{- $_ := set $settings $variable (include "gdp.text" $value) -}}
  {{- end -}}
{{- end -}}
{{- if and (kindIs "slice" $v.devices.include) (empty $v.devices.include) -}}
  {{- /* All of them, also where the file names some. */ -}}
  {{- $_ := set $settings "DEVICES_INCLUDE" "*" -}}
{{- end -}}
{{- if $facts.driverRoot | ne "/" -}}
  {{- $_ := set $settings "NVIDIA_DRIVER_ROOT" $facts.driverRoot -}}
{{- end -}}
{{- $_ := set $settings "STATE_DIR" $v.daemon.stateDir -}}
{{- $_ := set $settings "LABELS_PUBLISH" $facts.labels -}}
{{- $_ := set $settings "METRICS_ADDRESS" (ternary (printf ":%d" (int $v.metrics.port)) "" $v.metrics.enabled) -}}
{{- with include "gdp.onOff" $v.metrics.pods -}}{{- $_ := set $settings "METRICS_PODS" . -}}{{- end -}}
{{- with $v.metrics.tlsSecret -}}
  {{- $_ := set $settings "METRICS_TLS_CERT" "/etc/gpu-device-plugin/tls/tls.crt" -}}
  {{- $_ := set $settings "METRICS_TLS_KEY" "/etc/gpu-device-plugin/tls/tls.key" -}}
  {{- if $v.metrics.clientCA -}}
    {{- $_ := set $settings "METRICS_TLS_CLIENT_CA" "/etc/gpu-device-plugin/tls/ca.crt" -}}
  {{- end -}}
{{- end -}}
{{- with $v.metrics.basicAuthSecret -}}
  {{- $_ := set $settings "METRICS_BASIC_AUTH_FILE" "/etc/gpu-device-plugin/basic-auth/users" -}}
{{- end -}}
{{- if include "gdp.configMapName" .root -}}
  {{- $_ := set $settings "CONFIG_DIR" "/etc/gpu-device-plugin/configs" -}}
  {{- with $v.config.default -}}{{- $_ := set $settings "DEFAULT_CONFIG" . -}}{{- end -}}
  {{- if kindIs "slice" $v.config.fallbackStrategies -}}
    {{- $_ := set $settings "FALLBACK_STRATEGIES" (include "gdp.text" $v.config.fallbackStrategies) -}}
  {{- end -}}
{{- end -}}
{{- if $facts.mps -}}{{- $_ := set $settings "MPS_ROOT" $v.mps.root -}}{{- end -}}
{{- if ne $v.kubelet.devicePlugins "/var/lib/kubelet/device-plugins" -}}
  {{- $_ := set $settings "KUBELET_SOCKET" (printf "%s/kubelet.sock" $v.kubelet.devicePlugins) -}}
{{- end -}}
{{- if ne $v.kubelet.podResources "/var/lib/kubelet/pod-resources" -}}
  {{- $_ := set $settings "POD_RESOURCES_SOCKET" (printf "%s/kubelet.sock" $v.kubelet.podResources) -}}
{{- end -}}
{{- if ne $v.kubelet.pluginsRegistry "/var/lib/kubelet/plugins_registry" -}}
  {{- $_ := set $settings "PLUGINS_REGISTRY" $v.kubelet.pluginsRegistry -}}
{{- end -}}
{{- if $facts.configLabel -}}{{- $_ := set $settings "CLUSTER_CONFIG_LABEL" "true" -}}{{- end -}}
{{- if $v.cluster.events -}}{{- $_ := set $settings "CLUSTER_EVENTS" "true" -}}{{- end -}}
{{- if $v.cluster.condition -}}{{- $_ := set $settings "CLUSTER_CONDITION" "true" -}}{{- end -}}
{{- toYaml (merge $settings (fromYaml (include "gdp.runtimeSettings" .))) -}}
{{- end -}}

{{/* For the nvidia runtime: which GPUs, and how much of the driver, this container itself gets. */}}
{{- define "gdp.runtimeSettings" -}}
{{- if not .facts.mounted -}}
NVIDIA_VISIBLE_DEVICES: all
NVIDIA_DRIVER_CAPABILITIES: {{ .root.Values.nvidiaDriverCapabilities | default "compute,utility" | quote }}
{{- if .facts.mig }}
NVIDIA_MIG_MONITOR_DEVICES: all
{{- end }}
{{- else -}}
{}
{{- end -}}
{{- end -}}

{{/* The container's env: settings by name, then the node's name, then what devicePlugin.containers.main.env adds. */}}
{{- define "gdp.env" -}}
{{- $env := list -}}
{{- $extra := (((.root.Values.devicePlugin.containers | default dict).main | default dict).env | default list) -}}
{{- $taken := list -}}
{{- range $extra -}}{{- $taken = append $taken .name -}}{{- end -}}
{{- range $name, $text := fromYaml (include "gdp.settings" .) -}}
  {{- if not (has $name $taken) -}}
    {{- $env = append $env (dict "name" $name "value" $text) -}}
  {{- end -}}
{{- end -}}
{{- if not (has "NODE_NAME" $taken) -}}
  {{- $env = append $env (dict "name" "NODE_NAME" "valueFrom" (dict "fieldRef" (dict "fieldPath" "spec.nodeName"))) -}}
{{- end -}}
{{- toYaml (concat $env $extra) -}}
{{- end -}}
