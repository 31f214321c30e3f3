// Command kubestrict reads manifests of Kubernetes and of the Prometheus operator from its standard input, and reports
// each field that their types do not have, or whose value has another type.
package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"

	monitoring "github.com/prometheus-operator/prometheus-operator/pkg/apis/monitoring/v1"
	apps "k8s.io/api/apps/v1"
	autoscaling "k8s.io/api/autoscaling/v2"
	core "k8s.io/api/core/v1"
	networking "k8s.io/api/networking/v1"
	policy "k8s.io/api/policy/v1"
	"sigs.k8s.io/yaml"
	goyaml "sigs.k8s.io/yaml/goyaml.v3"
)

// The types of the objects that the manifests contain.
var types = map[string]func() any{
	"apps/v1/Deployment":                      func() any { return new(apps.Deployment) },
	"autoscaling/v2/HorizontalPodAutoscaler":  func() any { return new(autoscaling.HorizontalPodAutoscaler) },
	"monitoring.coreos.com/v1/PodMonitor":     func() any { return new(monitoring.PodMonitor) },
	"monitoring.coreos.com/v1/PrometheusRule": func() any { return new(monitoring.PrometheusRule) },
	"networking.k8s.io/v1/Ingress":            func() any { return new(networking.Ingress) },
	"policy/v1/PodDisruptionBudget":           func() any { return new(policy.PodDisruptionBudget) },
	"v1/ConfigMap":                            func() any { return new(core.ConfigMap) },
	"v1/Secret":                               func() any { return new(core.Secret) },
	"v1/Service":                              func() any { return new(core.Service) },
}

func check(document []byte) error {
	var head struct {
		APIVersion string `json:"apiVersion"`
		Kind       string `json:"kind"`
	}
	if err := yaml.Unmarshal(document, &head); err != nil {
		return err
	}
	name := head.APIVersion + "/" + head.Kind
	object, known := types[name]
	if !known {
		return fmt.Errorf("unknown type %s", name)
	}
	if err := yaml.UnmarshalStrict(document, object()); err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	fmt.Println(name)
	return nil
}

func main() {
	text, err := io.ReadAll(os.Stdin)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	failed := false
	for decoder := goyaml.NewDecoder(bytes.NewReader(text)); ; {
		var node goyaml.Node
		if err := decoder.Decode(&node); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		document, err := goyaml.Marshal(&node)
		if err == nil {
			err = check(document)
		}
		if err != nil {
			failed = true
			fmt.Fprintln(os.Stderr, err)
		}
	}
	if failed {
		os.Exit(1)
	}
}
