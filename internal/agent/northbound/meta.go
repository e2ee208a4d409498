package northbound

import (
	"context"
	"strings"

	"github.com/contiv/contiv/api/ligato/generic"
	"github.com/contiv/contiv/api/ligato/govppmux"
	"github.com/contiv/contiv/models"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/descriptorpb"
)

// configClass is the class of our models, and metricsClass that of MetricsModel.
const configClass, metricsClass = "config", "metrics"

// MetricsModel is served under /metrics/ for `agentctl metrics`.
const MetricsModel = "govppmux.stats"

type meta struct {
	generic.UnsafeMetaServiceServer
}

// KnownModels returns the models of a class, or all models.
func (meta) KnownModels(_ context.Context, r *generic.KnownModelsRequest) (*generic.KnownModelsResponse, error) {
	response := &generic.KnownModelsResponse{}
	if r.GetClass() == "" || r.GetClass() == metricsClass {
		module, typ, _ := strings.Cut(MetricsModel, ".")
		metrics := (&govppmux.Metrics{}).ProtoReflect().Descriptor()
		response.KnownModels = append(response.KnownModels, &generic.ModelDetail{
			Spec:      &generic.ModelSpec{Module: module, Type: typ, Class: metricsClass},
			ProtoName: string(metrics.FullName()),
			Options:   []*generic.ModelDetail_Option{{Key: "protoFile", Values: []string{metrics.ParentFile().Path()}}},
		})
	}
	if r.GetClass() != "" && r.GetClass() != configClass {
		return response, nil
	}
	for _, m := range models.All() {
		detail := &generic.ModelDetail{
			Spec:      &generic.ModelSpec{Module: m.Module, Version: m.Version, Type: m.Type, Class: configClass},
			ProtoName: m.ProtoName(),
			Options: []*generic.ModelDetail_Option{
				{Key: "protoFile", Values: []string{m.New().ProtoReflect().Descriptor().ParentFile().Path()}},
			},
		}
		if template := m.NameTemplate(); template != "" {
			detail.Options = append(detail.Options, &generic.ModelDetail_Option{Key: "nameTemplate", Values: []string{template}})
		}
		response.KnownModels = append(response.KnownModels, detail)
	}
	return response, nil
}

// ProtoFileDescriptor describes the proto file of a model and all its imports.
func (meta) ProtoFileDescriptor(_ context.Context, r *generic.ProtoFileDescriptorRequest) (*generic.ProtoFileDescriptorResponse, error) {
	files := []protoreflect.FileDescriptor{(&govppmux.Metrics{}).ProtoReflect().Descriptor().ParentFile()}
	for _, m := range models.All() {
		files = append(files, m.New().ProtoReflect().Descriptor().ParentFile())
	}
	for _, file := range files {
		if file.Path() != r.GetFullProtoFileName() {
			continue
		}
		imports := &descriptorpb.FileDescriptorSet{}
		addImports(imports, file, make(map[string]bool))
		return &generic.ProtoFileDescriptorResponse{
			FileDescriptor: describeFile(file), FileImportDescriptors: imports,
		}, nil
	}
	return nil, status.Errorf(codes.NotFound, "no model has the proto file %q", r.GetFullProtoFileName())
}

// addImports adds each direct or indirect import once.
func addImports(set *descriptorpb.FileDescriptorSet, file protoreflect.FileDescriptor, have map[string]bool) {
	for i := range file.Imports().Len() {
		imported := file.Imports().Get(i).FileDescriptor
		if have[imported.Path()] {
			continue
		}
		have[imported.Path()] = true
		addImports(set, imported, have)
		set.File = append(set.File, describeFile(imported))
	}
}
