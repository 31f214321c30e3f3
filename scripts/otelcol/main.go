// Command otelcol is OpenTelemetry's Collector with what the tests need of it: it receives OTLP, and writes each batch as
// a line of JSON into a file.
package main

import (
	"log"

	"github.com/open-telemetry/opentelemetry-collector-contrib/exporter/fileexporter"
	"go.opentelemetry.io/collector/component"
	"go.opentelemetry.io/collector/confmap"
	"go.opentelemetry.io/collector/confmap/provider/fileprovider"
	"go.opentelemetry.io/collector/exporter"
	"go.opentelemetry.io/collector/otelcol"
	"go.opentelemetry.io/collector/receiver"
	"go.opentelemetry.io/collector/receiver/otlpreceiver"
	"go.opentelemetry.io/collector/service/telemetry"
)

func factories() (otelcol.Factories, error) {
	receivers, err := otelcol.MakeFactoryMap[receiver.Factory](otlpreceiver.NewFactory())
	if err != nil {
		return otelcol.Factories{}, err
	}
	exporters, err := otelcol.MakeFactoryMap[exporter.Factory](fileexporter.NewFactory())
	// It says nothing of itself.
	silent := telemetry.NewFactory(func() component.Config { return &struct{}{} })
	return otelcol.Factories{Receivers: receivers, Exporters: exporters, Telemetry: silent}, err
}

func main() {
	resolver := confmap.ResolverSettings{
		DefaultScheme:     "file",
		ProviderFactories: []confmap.ProviderFactory{fileprovider.NewFactory()},
	}
	command := otelcol.NewCommand(otelcol.CollectorSettings{
		BuildInfo:              component.BuildInfo{Command: "otelcol", Version: "1"},
		Factories:              factories,
		ConfigProviderSettings: otelcol.ConfigProviderSettings{ResolverSettings: resolver},
	})
	if err := command.Execute(); err != nil {
		log.Fatal(err)
	}
}
