package aws

import (
	"fmt"
	"path/filepath"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/sagemaker"
	"github.com/aws/aws-sdk-go-v2/service/sagemaker/types"
)

// testRestart kills a router as nothing else would, and looks at what the next one knows.
func testRestart(t *testing.T, r *rig) {
	c := startContainer(t, "restart", newLedger())
	router := startRouter(t, r.binary, fmt.Sprintf("control_plane: {listen: '127.0.0.1:0', state_file: %s}\npools:\n%s%s",
		filepath.Join(t.TempDir(), "state.json"), containerPool("models", c), emptyPool(t)))
	before := router.controlPlane(leadID, leadSecret)
	createEndpoint(t, before, "kept", variantOf("one", "models", prefixAware(2048, 3)))
	createEndpoint(t, before, "gone", variantOf("one", "models", nil))
	deleteEndpoint(t, before, "gone")
	arn := aws.String(arns + "endpoint/kept")
	if _, err := before.AddTags(t.Context(), &sagemaker.AddTagsInput{ResourceArn: arn, Tags: []types.Tag{{Key: aws.String("team"), Value: aws.String("blue")}}}); err != nil {
		t.Fatal(err)
	}
	if _, err := before.CreateEndpointConfig(t.Context(), &sagemaker.CreateEndpointConfigInput{
		EndpointConfigName: aws.String("waits"), ProductionVariants: []types.ProductionVariant{variantOf("one", "empty", nil)}}); err != nil {
		t.Fatal(err)
	}
	if _, err := before.CreateEndpoint(t.Context(), &sagemaker.CreateEndpointInput{EndpointName: aws.String("waits"), EndpointConfigName: aws.String("waits")}); err != nil {
		t.Fatal(err)
	}
	was := inService(t, before, "kept")
	createComponent(t, before, "shared", "part", "models")

	router.kill()
	router.start(t)
	after := router.controlPlane(leadID, leadSecret)
	is, err := after.DescribeEndpoint(t.Context(), &sagemaker.DescribeEndpointInput{EndpointName: aws.String("kept")})
	if err != nil {
		t.Fatal(err)
	}
	if is.EndpointStatus != types.EndpointStatusInService || !is.CreationTime.Equal(*was.CreationTime) || *is.EndpointArn != *arn {
		t.Errorf("it was %+v and is %+v", was, is)
	}
	if p := is.ProductionVariants[0].RoutingConfig.PrefixAwareRoutingConfig; *p.PrefixLength != 2048 || *p.ConcurrencyThreshold != 3 {
		t.Errorf("it routes by %+v", p)
	}
	tags, err := after.ListTags(t.Context(), &sagemaker.ListTagsInput{ResourceArn: arn})
	if err != nil || len(tags.Tags) != 1 || *tags.Tags[0].Value != "blue" {
		t.Errorf("its tags are %+v, %v", tags, err)
	}
	waits, err := after.DescribeEndpoint(t.Context(), &sagemaker.DescribeEndpointInput{EndpointName: aws.String("waits")})
	if err != nil || waits.EndpointStatus != types.EndpointStatusCreating {
		t.Errorf("one that was being created is %+v, %v", waits, err)
	}
	part, err := after.DescribeInferenceComponent(t.Context(), &sagemaker.DescribeInferenceComponentInput{InferenceComponentName: aws.String("part")})
	if err != nil || part.InferenceComponentStatus != types.InferenceComponentStatusInService || *part.EndpointName != "shared" {
		t.Errorf("its inference component is %+v, %v", part, err)
	}
	_, err = after.DescribeEndpoint(t.Context(), &sagemaker.DescribeEndpointInput{EndpointName: aws.String("gone")})
	wantError(t, err, "ValidationException", 400, "Could not find endpoint ")
	eventually(t, "it serves again", func() bool {
		in := invocation("shared", order{})
		in.InferenceComponentName = aws.String("part")
		_, ofPart := router.runtime(leadID, leadSecret).InvokeEndpoint(t.Context(), in)
		out, err := router.runtime(leadID, leadSecret).InvokeEndpoint(t.Context(), invocation("kept", order{}))
		return ofPart == nil && err == nil && aws.ToString(out.InvokedProductionVariant) == "one"
	})
}
