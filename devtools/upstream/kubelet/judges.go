package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"

	oci "github.com/opencontainers/runtime-spec/specs-go"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/dynamic-resource-allocation/api/metadata"
	"k8s.io/dynamic-resource-allocation/api/metadata/install"
	"k8s.io/dynamic-resource-allocation/api/metadata/v1beta1"
	"k8s.io/dynamic-resource-allocation/deviceattribute"
	"k8s.io/dynamic-resource-allocation/devicemetadata"
	"k8s.io/dynamic-resource-allocation/kubeletplugin"
	healthv1 "k8s.io/kubelet/pkg/apis/dra-health/v1"
	healthv1alpha1 "k8s.io/kubelet/pkg/apis/dra-health/v1alpha1"
	drav1 "k8s.io/kubelet/pkg/apis/dra/v1"
	drav1beta1 "k8s.io/kubelet/pkg/apis/dra/v1beta1"
	registerapi "k8s.io/kubelet/pkg/apis/pluginregistration/v1"
	"tags.cncf.io/container-device-interface/pkg/cdi"
)

// judge asks libraries about what a driver has written.
func judge(c *command) (any, error) {
	switch c.Do {
	case "registration-socket":
		return kubeletplugin.RollingUpdateRegistrarSocketFile(c.Folder, c.Driver, types.UID(c.UID)), nil
	case "encode":
		return encoded(c)
	case "decode":
		return decoded(c)
	case "inject":
		return injected(c)
	case "metadata":
		return metadataOf(c.Path)
	case "device-attributes":
		return deviceAttributes(c)
	}
	return nil, fmt.Errorf("unknown command %q", c.Do)
}

var messages = map[string]func() proto.Message{
	"InfoRequest":                               func() proto.Message { return &registerapi.InfoRequest{} },
	"PluginInfo":                                func() proto.Message { return &registerapi.PluginInfo{} },
	"RegistrationStatus":                        func() proto.Message { return &registerapi.RegistrationStatus{} },
	"RegistrationStatusResponse":                func() proto.Message { return &registerapi.RegistrationStatusResponse{} },
	"v1/NodePrepareResourcesRequest":            func() proto.Message { return &drav1.NodePrepareResourcesRequest{} },
	"v1/NodePrepareResourcesResponse":           func() proto.Message { return &drav1.NodePrepareResourcesResponse{} },
	"v1/NodeUnprepareResourcesRequest":          func() proto.Message { return &drav1.NodeUnprepareResourcesRequest{} },
	"v1/NodeUnprepareResourcesResponse":         func() proto.Message { return &drav1.NodeUnprepareResourcesResponse{} },
	"v1beta1/NodePrepareResourcesRequest":       func() proto.Message { return &drav1beta1.NodePrepareResourcesRequest{} },
	"v1beta1/NodePrepareResourcesResponse":      func() proto.Message { return &drav1beta1.NodePrepareResourcesResponse{} },
	"v1beta1/NodeUnprepareResourcesRequest":     func() proto.Message { return &drav1beta1.NodeUnprepareResourcesRequest{} },
	"v1beta1/NodeUnprepareResourcesResponse":    func() proto.Message { return &drav1beta1.NodeUnprepareResourcesResponse{} },
	"health/v1/NodeWatchResourcesRequest":       func() proto.Message { return &healthv1.NodeWatchResourcesRequest{} },
	"health/v1/NodeWatchResourcesResponse":      func() proto.Message { return &healthv1.NodeWatchResourcesResponse{} },
	"health/v1alpha1/NodeWatchResourcesRequest": func() proto.Message { return &healthv1alpha1.NodeWatchResourcesRequest{} },
	"health/v1alpha1/NodeWatchResourcesResponse": func() proto.Message {
		return &healthv1alpha1.NodeWatchResourcesResponse{}
	},
}

func message(c *command) (proto.Message, error) {
	create, ok := messages[c.Message]
	if !ok {
		return nil, fmt.Errorf("unknown message %q", c.Message)
	}
	return create(), nil
}

// encoded is a message, given as JSON, in the wire's bytes.
func encoded(c *command) (any, error) {
	m, err := message(c)
	if err != nil {
		return nil, err
	}
	if err := protojson.Unmarshal(c.Value, m); err != nil {
		return nil, err
	}
	return proto.MarshalOptions{Deterministic: true}.Marshal(m)
}

// decoded is a message, given as the wire's bytes in base64, as JSON.
func decoded(c *command) (any, error) {
	m, err := message(c)
	if err != nil {
		return nil, err
	}
	var wire []byte
	if err := json.Unmarshal(c.Value, &wire); err != nil {
		return nil, err
	}
	if err := proto.Unmarshal(wire, m); err != nil {
		return nil, err
	}
	text, err := protojson.MarshalOptions{UseProtoNames: true}.Marshal(m)
	return json.RawMessage(text), err
}

// injected is what a container gets by CDI devices from the files of a folder.
func injected(c *command) (any, error) {
	cache, err := cdi.NewCache(cdi.WithSpecDirs(c.Folder), cdi.WithAutoRefresh(false))
	if err != nil {
		return nil, err
	}
	for path, failures := range cache.GetErrors() {
		return nil, fmt.Errorf("%s: %w", path, errors.Join(failures...))
	}
	spec := &oci.Spec{Linux: &oci.Linux{}}
	if unresolved, err := cache.InjectDevices(spec, c.Devices...); err != nil {
		return nil, fmt.Errorf("unresolvable %v: %w", unresolved, err)
	}
	return spec, nil
}

// metadataOf is a metadata file, read once as a consumer reads it, and once object by object, each version validated.
func metadataOf(path string) (any, error) {
	content, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	var first metadata.DeviceMetadata
	var invalid error
	decoder := json.NewDecoder(bytes.NewReader(content))
	if err := devicemetadata.DecodeMetadataFromStream(decoder, &first, devicemetadata.DecodeMetadataWithValidationResult(&invalid)); err != nil {
		return nil, err
	}
	if invalid != nil {
		return nil, invalid
	}
	versions := []string{}
	for objects := json.NewDecoder(bytes.NewReader(content)); ; {
		var object json.RawMessage
		if err := objects.Decode(&object); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			return nil, err
		}
		var kind struct {
			APIVersion string `json:"apiVersion"`
		}
		if err := json.Unmarshal(object, &kind); err != nil {
			return nil, err
		}
		var same metadata.DeviceMetadata
		single := json.NewDecoder(bytes.NewReader(object))
		if err := devicemetadata.DecodeMetadataFromStream(single, &same, devicemetadata.DecodeMetadataWithValidationResult(&invalid)); err != nil {
			return nil, fmt.Errorf("%s: %w", kind.APIVersion, err)
		}
		if invalid != nil {
			return nil, fmt.Errorf("%s: %w", kind.APIVersion, invalid)
		}
		versions = append(versions, kind.APIVersion)
	}
	var written v1beta1.DeviceMetadata
	if err := install.NewScheme().Convert(&first, &written, nil); err != nil {
		return nil, err
	}
	return map[string]any{"metadata": written, "versions": versions}, nil
}

// deviceAttributes are the standard attributes of PCI functions under a copied sysfs root.
func deviceAttributes(c *command) (any, error) {
	root := deviceattribute.WithFSFromRoot(c.Folder)
	result := map[string]map[string]any{}
	for _, address := range c.Devices {
		attributes := map[string]any{}
		add := func(name string, attribute deviceattribute.DeviceAttribute, err error) {
			if err != nil {
				attributes[name] = err.Error()
				return
			}
			attributes[string(attribute.Name)] = attribute.Value
		}
		busID, err := deviceattribute.GetPCIBusIDAttribute(address)
		add("pciBusID", busID, err)
		pcieRoot, err := deviceattribute.GetPCIeRootAttributeByPCIBusID(address, root)
		add("pcieRoot", pcieRoot, err)
		for name, form := range map[string]deviceattribute.AttributeForm{
			"scalar": deviceattribute.ScalarAttribute, "list": deviceattribute.ListAttribute,
		} {
			numa, err := deviceattribute.GetNUMANodeAttributeByPCIBusID(address, form, root)
			if err != nil {
				attributes["numaNode "+name] = err.Error()
				continue
			}
			attributes["numaNode "+name] = numa.Value
		}
		result[address] = attributes
	}
	return result, nil
}
