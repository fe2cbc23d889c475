{{- define "warren.name" -}}
{{- .Release.Name | trunc 40 | trimSuffix "-" -}}
{{- end -}}

{{- define "warren.labels" -}}
app.kubernetes.io/name: warren
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end -}}

{{- define "warren.secret" -}}
{{- .Values.auth.existingSecret | default (include "warren.name" .) -}}
{{- end -}}

{{- define "warren.seeds" -}}
{{- $name := include "warren.name" . -}}
{{- $count := int (.Values.founders | default .Values.replicas) -}}
{{- $seeds := list -}}
{{- range $i := until $count -}}
{{- $seeds = append $seeds (printf "%s-%d.%s-nodes.%s.svc:25672" $name $i $name $.Release.Namespace) -}}
{{- end -}}
{{- join "," $seeds -}}
{{- end -}}
