package aws

import (
	"net/http"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/sagemaker"
	"github.com/aws/aws-sdk-go-v2/service/sagemaker/types"
)

// component calls an inference component and returns the error, if it is not answered by container.
func (g goClients) component(t *testing.T, endpoint, name, container string) error {
	t.Helper()
	in := invocation(endpoint, order{})
	in.InferenceComponentName = aws.String(name)
	if name == "" {
		in.InferenceComponentName = nil
	}
	out, err := g.runtime.InvokeEndpoint(t.Context(), in, once)
	if err == nil && !strings.Contains(string(out.Body), `"container":"`+container+`"`) {
		t.Errorf("component %s: answered %s", name, out.Body)
	}
	return err
}

// testComponents calls those of the file, by both operations and on the OpenAI route.
func (g goClients) testComponents(t *testing.T) {
	for _, container := range []string{"go-a", "go-b"} {
		if err := g.component(t, "go-shared", container, container); err != nil {
			t.Error(err)
		}
	}
	in := streamOf("go-shared", chat("Hello.", 3))
	in.InferenceComponentName = aws.String("go-llm")
	out, err := g.runtime.InvokeEndpointWithResponseStream(t.Context(), in)
	if err != nil {
		t.Fatal(err)
	}
	if text, err := read(out.GetStream()); err != nil || !strings.HasSuffix(string(text), "data: [DONE]\n\n") || aws.ToString(out.InvokedProductionVariant) != "main" {
		t.Errorf("a component's stream: got %s, %v by variant %q", text, err, aws.ToString(out.InvokedProductionVariant))
	}
	wantError(t, g.component(t, "go-shared", "none", ""), "ValidationError", http.StatusBadRequest, "")
	wantError(t, g.component(t, "go-shared", "", ""), "ValidationError", http.StatusBadRequest, "")
	wantError(t, g.component(t, "go", "go-a", ""), "ValidationError", http.StatusBadRequest, "")

	c := g.open.openAI("go-shared/inference-components/go-llm", "unused")
	if answer, err := c.Chat.Completions.New(t.Context(), question("emulated-go")); err != nil || len(answer.Choices) != 1 {
		t.Errorf("a component on the OpenAI route: got %v and %v", answer, err)
	}
	if models, err := c.Models.List(t.Context()); err != nil || len(models.Data) == 0 {
		t.Errorf("a component's models: got %v and %v", models, err)
	}
	c = g.open.openAI("go-shared/inference-components/none", "unused")
	_, err = c.Chat.Completions.New(t.Context(), question("emulated-go"))
	wantOpenAIError(t, err, http.StatusBadRequest, "validation_error")
}

// componentStatus describes a component until it has a status.
func componentStatus(t *testing.T, c *sagemaker.Client, name string, want types.InferenceComponentStatus) *sagemaker.DescribeInferenceComponentOutput {
	t.Helper()
	var out *sagemaker.DescribeInferenceComponentOutput
	eventually(t, name+" is "+string(want), func() (there bool) {
		var err error
		if out, err = c.DescribeInferenceComponent(t.Context(), &sagemaker.DescribeInferenceComponentInput{InferenceComponentName: &name}); err != nil {
			t.Fatal(err)
		}
		return out.InferenceComponentStatus == want
	})
	return out
}

// createComponent makes an endpoint with a variant main, and an inference component of a pool there, and waits until it is in service.
func createComponent(t *testing.T, c *sagemaker.Client, endpoint, component, pool string) *sagemaker.CreateInferenceComponentOutput {
	t.Helper()
	main := variantOf("main", "", prefixAware(prefixLength, threshold))
	main.ModelName = nil
	createEndpoint(t, c, endpoint, main)
	made, err := c.CreateInferenceComponent(t.Context(), &sagemaker.CreateInferenceComponentInput{InferenceComponentName: &component, EndpointName: &endpoint,
		VariantName: main.VariantName, Specification: specification(pool), RuntimeConfig: &types.InferenceComponentRuntimeConfig{CopyCount: aws.Int32(1)}})
	if err != nil {
		t.Fatal(err)
	}
	componentStatus(t, c, component, types.InferenceComponentStatusInService)
	return made
}

func specification(pool string) *types.InferenceComponentSpecification {
	return &types.InferenceComponentSpecification{ModelName: &pool, ComputeResourceRequirements: &types.InferenceComponentComputeResourceRequirements{
		MinMemoryRequiredInMb: aws.Int32(1024), NumberOfAcceleratorDevicesRequired: aws.Float32(1)}}
}

// testComponentLife makes a component by API, moves it to another pool, takes its copies and gives them back, and deletes it.
func (g goClients) testComponentLife(t *testing.T) {
	c, ctx := g.control, t.Context()
	endpoint, component := aws.String("go-made"), aws.String("go-component")
	made := createComponent(t, c, *endpoint, *component, "go-a")
	if *made.InferenceComponentArn != arns+"inference-component/go-component" {
		t.Errorf("it is %s", *made.InferenceComponentArn)
	}
	is := componentStatus(t, c, *component, types.InferenceComponentStatusInService)
	if *is.RuntimeConfig.CurrentCopyCount != 1 || *is.RuntimeConfig.DesiredCopyCount != 1 || *is.EndpointName != *endpoint || *is.VariantName != "main" {
		t.Errorf("in service as %+v", is)
	}
	if err := g.component(t, *endpoint, *component, "go-a"); err != nil {
		t.Error(err)
	}
	listed, err := c.ListInferenceComponents(ctx, &sagemaker.ListInferenceComponentsInput{EndpointNameEquals: endpoint})
	if err != nil || len(listed.InferenceComponents) != 1 || *listed.InferenceComponents[0].InferenceComponentName != *component {
		t.Errorf("listed %+v and %v", listed, err)
	}
	g.testComponentUpdates(t, *endpoint, *component)

	_, err = c.DeleteEndpoint(ctx, &sagemaker.DeleteEndpointInput{EndpointName: endpoint})
	wantError(t, err, "ValidationException", http.StatusBadRequest, "Cannot delete endpoint with inference component associated.")
	if _, err := c.DeleteInferenceComponent(ctx, &sagemaker.DeleteInferenceComponentInput{InferenceComponentName: component}); err != nil {
		t.Fatal(err)
	}
	eventually(t, "it is deleted", func() bool {
		_, err = c.DescribeInferenceComponent(ctx, &sagemaker.DescribeInferenceComponentInput{InferenceComponentName: component})
		return err != nil
	})
	wantError(t, err, "ValidationException", http.StatusBadRequest, `Could not find inference component "`+arns+`inference-component/go-component".`)
	wantError(t, g.component(t, *endpoint, *component, ""), "ValidationError", http.StatusBadRequest, "")
	deleteEndpoint(t, c, *endpoint)
}

func (g goClients) testComponentUpdates(t *testing.T, endpoint, component string) {
	t.Helper()
	c, ctx := g.control, t.Context()
	copies := func(n int32) {
		if _, err := c.UpdateInferenceComponentRuntimeConfig(ctx, &sagemaker.UpdateInferenceComponentRuntimeConfigInput{
			InferenceComponentName: &component, DesiredRuntimeConfig: &types.InferenceComponentRuntimeConfig{CopyCount: &n}}); err != nil {
			t.Fatal(err)
		}
		componentStatus(t, c, component, types.InferenceComponentStatusInService)
	}
	copies(0)
	wantError(t, g.component(t, endpoint, component, ""), "ServiceUnavailable", http.StatusServiceUnavailable, "")
	copies(2)
	if _, err := c.UpdateInferenceComponent(ctx, &sagemaker.UpdateInferenceComponentInput{InferenceComponentName: &component, Specification: specification("go-b")}); err != nil {
		t.Fatal(err)
	}
	componentStatus(t, c, component, types.InferenceComponentStatusInService)
	if err := g.component(t, endpoint, component, "go-b"); err != nil {
		t.Error(err)
	}
	_, err := c.UpdateInferenceComponent(ctx, &sagemaker.UpdateInferenceComponentInput{InferenceComponentName: &component, Specification: specification("go-z")})
	wantError(t, err, "ValidationException", http.StatusBadRequest, `Could not find model "`+arns+`model/go-z".`)
}
