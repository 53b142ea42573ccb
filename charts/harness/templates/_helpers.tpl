{{- define "harness.fullname" -}}
{{- printf "%s-harness" .Release.Name | trunc 63 | trimSuffix "-" -}}
{{- end -}}

{{- define "harness.labels" -}}
app.kubernetes.io/name: harness
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end -}}

{{- define "harness.engine" -}}
{{- printf "%s-engine" (include "harness.fullname" . | trunc 56 | trimSuffix "-") -}}
{{- end -}}

{{- define "harness.nodes" -}}
{{- printf "%s-engine-nodes" (include "harness.fullname" . | trunc 50 | trimSuffix "-") -}}
{{- end -}}

{{- define "harness.claim" -}}
{{- .Values.report.claim.name | default (printf "%s-report" .Release.Name) -}}
{{- end -}}

{{- /* One Job per report: a second upgrade for the same run can change nothing of a Job, and so never makes another. */ -}}
{{- define "harness.job" -}}
{{- printf "%s-%s" (include "harness.fullname" . | trunc 54 | trimSuffix "-") (sha256sum .Values.report.path | trunc 8) -}}
{{- end -}}

{{- define "harness.plan" -}}
{{- printf "%s-%s" (include "harness.fullname" . | trunc 54 | trimSuffix "-") (sha256sum .Values.plan | trunc 8) -}}
{{- end -}}

{{- define "harness.container" -}}
allowPrivilegeEscalation: false
readOnlyRootFilesystem: true
capabilities: {drop: [ALL]}
{{- end -}}
