package aws

import (
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/sagemaker"
	"github.com/aws/aws-sdk-go-v2/service/sagemaker/types"
)

// testValidation has the service refuse what Go's SDK does not check itself.
func (g goClients) testValidation(t *testing.T) {
	c, ctx := g.control, t.Context()
	const at = "'productionVariants.1.member.routingConfig.prefixAwareRoutingConfig."
	config := func(name string, variant types.ProductionVariant) error {
		_, err := c.CreateEndpointConfig(ctx, &sagemaker.CreateEndpointConfigInput{EndpointConfigName: &name, ProductionVariants: []types.ProductionVariant{variant}})
		return err
	}
	for _, test := range []struct {
		name, text string
		variant    types.ProductionVariant
	}{
		{"too small", "2 validation errors detected: Value '1023' at " + at + "prefixLength' failed to satisfy constraint: Member must have value greater than or equal to 1024; " +
			"Value '0' at " + at + "concurrencyThreshold' failed to satisfy constraint: Member must have value greater than or equal to 1", variantOf("v", "go-a", prefixAware(1023, 0))},
		{"too large", "2 validation errors detected: Value '65537' at " + at + "prefixLength' failed to satisfy constraint: Member must have value less than or equal to 65536; " +
			"Value '1025' at " + at + "concurrencyThreshold' failed to satisfy constraint: Member must have value less than or equal to 1024", variantOf("v", "go-a", prefixAware(65537, 1025))},
		{"no such strategy", "1 validation error detected: Value 'NOPE' at 'productionVariants.1.member.routingConfig.routingStrategy' failed to satisfy constraint: Member must satisfy enum value set: [",
			variantOf("v", "go-a", &types.ProductionVariantRoutingConfig{RoutingStrategy: "NOPE"})},
		{"no such pool", `Could not find model "` + arns + `model/go-z".`, variantOf("v", "go-z", nil)},
		{"bad variant name", "1 validation error detected: Value '-v' at 'productionVariants.1.member.variantName' failed to satisfy constraint: Member must satisfy regular expression pattern: ", variantOf("-v", "go-a", nil)},
	} {
		err := config("go-refused", test.variant)
		t.Run(test.name, func(t *testing.T) { wantError(t, err, "ValidationException", 400, test.text) })
	}
	unconfigured := variantOf("v", "go-a", &types.ProductionVariantRoutingConfig{RoutingStrategy: types.RoutingStrategyPrefixAware})
	wantError(t, config("go-refused", unconfigured), "ValidationException", 400, "")
	contradicting := prefixAware(1024, 1)
	contradicting.RoutingStrategy = types.RoutingStrategyRandom
	wantError(t, config("go-refused", variantOf("v", "go-a", contradicting)), "ValidationException", 400, "")

	_, err := c.DescribeEndpoint(ctx, &sagemaker.DescribeEndpointInput{EndpointName: aws.String("go-none")})
	wantError(t, err, "ValidationException", 400, `Could not find endpoint "`+arns+`endpoint/go-none".`)
	_, err = c.CreateEndpoint(ctx, &sagemaker.CreateEndpointInput{EndpointName: aws.String("go-none"), EndpointConfigName: aws.String("go-none")})
	wantError(t, err, "ValidationException", 400, `Could not find endpoint configuration "`+arns+`endpoint-config/go-none".`)
	_, err = c.DescribeEndpointConfig(ctx, &sagemaker.DescribeEndpointConfigInput{EndpointConfigName: aws.String("go-none")})
	wantError(t, err, "ValidationException", 400, `Could not find endpoint configuration "`+arns+`endpoint-config/go-none".`)

	// One that is never in service, because its pool has no replica.
	waiting := aws.String("go-waiting")
	if err := config(*waiting, variantOf("v", "empty", nil)); err != nil {
		t.Fatal(err)
	}
	wantError(t, config(*waiting, variantOf("v", "empty", nil)), "ValidationException", 400, `Cannot create already existing endpoint configuration "`)
	create := &sagemaker.CreateEndpointInput{EndpointName: waiting, EndpointConfigName: waiting}
	if _, err := c.CreateEndpoint(ctx, create); err != nil {
		t.Fatal(err)
	}
	_, err = c.CreateEndpoint(ctx, create)
	wantError(t, err, "ValidationException", 400, `Cannot create already existing endpoint "`)
	_, err = c.DeleteEndpoint(ctx, &sagemaker.DeleteEndpointInput{EndpointName: waiting})
	wantError(t, err, "ValidationException", 400, `Cannot update in-progress endpoint "`)
	_, err = g.runtime.InvokeEndpoint(ctx, invocation(*waiting, order{}))
	wantError(t, err, "ValidationError", 400, "")
	_, err = c.CreateEndpoint(ctx, &sagemaker.CreateEndpointInput{EndpointName: aws.String("go"), EndpointConfigName: waiting})
	wantError(t, err, "ValidationException", 400, `Cannot create already existing endpoint "`+arns+`endpoint/go". It stands in Warmpath's configuration file`)
}

// testRefusedFeatures has everything refused that Warmpath would have to ignore.
func (g goClients) testRefusedFeatures(t *testing.T) {
	c, ctx := g.control, t.Context()
	name := aws.String("go-refused")
	one := []types.ProductionVariant{variantOf("one", "go-a", nil)}
	_, err := c.CreateEndpointConfig(ctx, &sagemaker.CreateEndpointConfigInput{EndpointConfigName: name, ProductionVariants: one,
		AsyncInferenceConfig: &types.AsyncInferenceConfig{OutputConfig: &types.AsyncInferenceOutputConfig{S3OutputPath: aws.String("s3://bucket/key")}}})
	wantError(t, err, "ValidationException", 400, "AsyncInferenceConfig is not supported by Warmpath: ")
	_, err = c.CreateEndpointConfig(ctx, &sagemaker.CreateEndpointConfigInput{EndpointConfigName: name, ProductionVariants: []types.ProductionVariant{
		{VariantName: aws.String("one"), ModelName: aws.String("go-a"), ServerlessConfig: &types.ProductionVariantServerlessConfig{MaxConcurrency: aws.Int32(1), MemorySizeInMB: aws.Int32(1024)}}}})
	wantError(t, err, "ValidationException", 400, "ServerlessConfig is not supported by Warmpath: ")
	_, err = c.CreateModel(ctx, &sagemaker.CreateModelInput{ModelName: name})
	wantError(t, err, "UnknownOperationException", 400, "")
}
