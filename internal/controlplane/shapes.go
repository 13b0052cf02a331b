package controlplane

import "github.com/go-json-experiment/json/jsontext"

// The shapes of SageMaker's API that the control plane reads and writes. Members that mean nothing to a router, such as the type of an
// instance, are kept and given back unread.

// configSettings is what CreateEndpointConfig sets and DescribeEndpointConfig gives back.
type configSettings struct {
	ProductionVariants       []productionVariant `json:"ProductionVariants,omitzero" check:"required,length=1..10"`
	ShadowProductionVariants []productionVariant `json:"ShadowProductionVariants,omitzero" check:"length=..10"`
	AsyncInferenceConfig     jsontext.Value      `json:"AsyncInferenceConfig,omitzero"`
	DataCaptureConfig        jsontext.Value      `json:"DataCaptureConfig,omitzero"`
	EnableNetworkIsolation   *bool               `json:"EnableNetworkIsolation,omitzero"`
	ExecutionRoleArn         string              `json:"ExecutionRoleArn,omitzero" check:"length=20..2048"`
	ExplainerConfig          jsontext.Value      `json:"ExplainerConfig,omitzero"`
	KmsKeyID                 string              `json:"KmsKeyId,omitzero" check:"length=..2048"`
	MetricsConfig            jsontext.Value      `json:"MetricsConfig,omitzero"`
	VpcConfig                jsontext.Value      `json:"VpcConfig,omitzero"`
}

// productionVariant is a weighted part of an endpoint. ModelName names a pool.
type productionVariant struct {
	VariantName                string         `json:"VariantName" check:"required,length=..63,match=name"`
	ModelName                  string         `json:"ModelName,omitzero" check:"length=..63,match=model"`
	InitialInstanceCount       *int           `json:"InitialInstanceCount,omitzero" check:"range=1.."`
	InstanceType               string         `json:"InstanceType,omitzero" check:"length=..64"`
	InitialVariantWeight       *float64       `json:"InitialVariantWeight,omitzero" check:"range=0..3.4028235e+38"`
	RoutingConfig              *routingConfig `json:"RoutingConfig,omitzero"`
	StartupTimeout             *int           `json:"ContainerStartupHealthCheckTimeoutInSeconds,omitzero" check:"range=60..3600"`
	DownloadTimeout            *int           `json:"ModelDataDownloadTimeoutInSeconds,omitzero" check:"range=60..3600"`
	ProvisionTimeout           *int           `json:"VariantInstanceProvisionTimeoutInSeconds,omitzero" check:"range=1.."`
	VolumeSizeInGB             *int           `json:"VolumeSizeInGB,omitzero" check:"range=1..512"`
	AcceleratorType            string         `json:"AcceleratorType,omitzero" check:"length=..64"`
	InferenceAmiVersion        string         `json:"InferenceAmiVersion,omitzero" check:"length=..64"`
	EnableSSMAccess            *bool          `json:"EnableSSMAccess,omitzero"`
	CoreDumpConfig             jsontext.Value `json:"CoreDumpConfig,omitzero"`
	CapacityReservation        jsontext.Value `json:"CapacityReservationConfig,omitzero"`
	InstancePools              jsontext.Value `json:"InstancePools,omitzero"`
	AcceleratorPartitionLayout jsontext.Value `json:"AcceleratorPartitionLayouts,omitzero"`
	ManagedInstanceScaling     jsontext.Value `json:"ManagedInstanceScaling,omitzero"`
	ServerlessConfig           jsontext.Value `json:"ServerlessConfig,omitzero"`
}

// routingConfig is how a replica is chosen. Without one it is RANDOM, as in SageMaker.
type routingConfig struct {
	RoutingStrategy          string                    `json:"RoutingStrategy" check:"required,enum=LEAST_OUTSTANDING_REQUESTS|RANDOM|PREFIX_AWARE|KV_AWARE"`
	PrefixAwareRoutingConfig *prefixAwareRoutingConfig `json:"PrefixAwareRoutingConfig,omitzero"`
}

type prefixAwareRoutingConfig struct {
	PrefixLength         *int `json:"PrefixLength,omitzero" check:"range=1024..65536"`
	ConcurrencyThreshold *int `json:"ConcurrencyThreshold,omitzero" check:"range=1..1024"`
}

// violations holds the settings of PREFIX_AWARE to that strategy.
func (r routingConfig) violations(path string) (found []string) {
	settings, at := r.PrefixAwareRoutingConfig, path+"prefixAwareRoutingConfig"
	switch {
	case r.RoutingStrategy == "PREFIX_AWARE" && settings == nil:
		return []string{violation("null", at, "not be null when routingStrategy is PREFIX_AWARE")}
	case r.RoutingStrategy != "PREFIX_AWARE" && settings != nil:
		return []string{violation("'PrefixAwareRoutingConfig'", at, "be null unless routingStrategy is PREFIX_AWARE")}
	case settings == nil:
		return nil
	}
	if settings.PrefixLength == nil {
		found = append(found, violation("null", at+".prefixLength", "not be null"))
	}
	if settings.ConcurrencyThreshold == nil {
		found = append(found, violation("null", at+".concurrencyThreshold", "not be null"))
	}
	return found
}

// tag is a key and a value that mean something to whoever set them.
type tag struct {
	Key   string `json:"Key" check:"required,length=..128,match=tag"`
	Value string `json:"Value" check:"length=..256,match=tag"`
}

// deploymentConfig is how traffic moves to a new configuration. Warmpath moves it in one step.
type deploymentConfig struct {
	BlueGreenUpdatePolicy     *blueGreenUpdatePolicy     `json:"BlueGreenUpdatePolicy,omitzero"`
	RollingUpdatePolicy       jsontext.Value             `json:"RollingUpdatePolicy,omitzero"`
	AutoRollbackConfiguration *autoRollbackConfiguration `json:"AutoRollbackConfiguration,omitzero"`
}

type blueGreenUpdatePolicy struct {
	TrafficRoutingConfiguration trafficRouting `json:"TrafficRoutingConfiguration" check:"required"`
	TerminationWaitInSeconds    *int           `json:"TerminationWaitInSeconds,omitzero" check:"range=0..3600"`
	MaximumExecutionTimeout     *int           `json:"MaximumExecutionTimeoutInSeconds,omitzero" check:"range=600..28800"`
}

type trafficRouting struct {
	Type                  string         `json:"Type" check:"required,enum=ALL_AT_ONCE|CANARY|LINEAR"`
	WaitIntervalInSeconds *int           `json:"WaitIntervalInSeconds,omitzero" check:"range=0..3600"`
	CanarySize            jsontext.Value `json:"CanarySize,omitzero"`
	LinearStepSize        jsontext.Value `json:"LinearStepSize,omitzero"`
}

type autoRollbackConfiguration struct {
	Alarms []jsontext.Value `json:"Alarms,omitzero" check:"length=..10"`
}

type endpointConfigName struct {
	EndpointConfigName string `json:"EndpointConfigName" check:"required,length=..63,match=name"`
}

type endpointName struct {
	EndpointName string `json:"EndpointName" check:"required,length=..63,match=name"`
}

type endpointConfigArn struct {
	EndpointConfigArn string `json:"EndpointConfigArn"`
}

type endpointArn struct {
	EndpointArn string `json:"EndpointArn"`
}

// nothing is the input or the output of operations that have none.
type nothing struct{}
