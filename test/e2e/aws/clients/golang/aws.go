package main

import (
	"context"
	"encoding/json"
	"errors"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/sagemaker"
	sagemakertypes "github.com/aws/aws-sdk-go-v2/service/sagemaker/types"
	"github.com/aws/aws-sdk-go-v2/service/sagemakerruntime"
	"github.com/aws/aws-sdk-go-v2/service/sagemakerruntime/types"
)

// waitLimit bounds the waiters.
const waitLimit = 30 * time.Second

// amazon is github.com/aws/aws-sdk-go-v2. Warmpath asks for no credentials here, but the client does not go without.
type amazon struct{}

const region = "us-east-1"

var anybody = credentials.NewStaticCredentialsProvider("none", "none", "")

func (amazon) runtime(o order) *sagemakerruntime.Client {
	return sagemakerruntime.New(sagemakerruntime.Options{BaseEndpoint: aws.String(o.URL), Region: region, Credentials: anybody, RetryMaxAttempts: 1})
}

func (c amazon) plain(ctx context.Context, o order) (any, error) {
	got, err := c.runtime(o).InvokeEndpoint(ctx, &sagemakerruntime.InvokeEndpointInput{
		EndpointName: &o.Name, ContentType: aws.String("application/json"), Body: o.Request})
	if err != nil {
		return nil, err
	}
	return map[string]any{"type": aws.ToString(got.ContentType), "body": string(got.Body)}, nil
}

func (c amazon) stream(ctx context.Context, o order) (stream, error) {
	got, err := c.runtime(o).InvokeEndpointWithResponseStream(ctx, &sagemakerruntime.InvokeEndpointWithResponseStreamInput{
		EndpointName: &o.Name, ContentType: aws.String("application/json"), Body: o.Request})
	if err != nil {
		return nil, err
	}
	return &parts{events: got.GetStream(), kind: aws.ToString(got.ContentType)}, nil
}

func (amazon) failure(err error) any {
	var refusal *types.ModelError
	if !errors.As(err, &refusal) {
		return map[string]any{"text": err.Error()}
	}
	return map[string]any{"status": refusal.OriginalStatusCode, "body": aws.ToString(refusal.OriginalMessage)}
}

func (c amazon) manage(ctx context.Context, o order) (any, error) {
	control := sagemaker.New(sagemaker.Options{BaseEndpoint: aws.String(o.URL), Region: region, Credentials: anybody, RetryMaxAttempts: 1})
	if o.Do == "delete" {
		return unmake(ctx, control, o)
	}
	return create(ctx, control, o)
}

// create makes an endpoint and returns its status when it is in service.
func create(ctx context.Context, control *sagemaker.Client, o order) (any, error) {
	var request struct{ Pool string }
	if err := json.Unmarshal(o.Request, &request); err != nil {
		return nil, err
	}
	variant := sagemakertypes.ProductionVariant{VariantName: aws.String("main"), ModelName: &request.Pool, InitialInstanceCount: aws.Int32(2), InstanceType: "ml.m5.large"}
	if _, err := control.CreateEndpointConfig(ctx, &sagemaker.CreateEndpointConfigInput{
		EndpointConfigName: &o.Name, ProductionVariants: []sagemakertypes.ProductionVariant{variant}}); err != nil {
		return nil, err
	}
	if _, err := control.CreateEndpoint(ctx, &sagemaker.CreateEndpointInput{EndpointName: &o.Name, EndpointConfigName: &o.Name}); err != nil {
		return nil, err
	}
	waiter := sagemaker.NewEndpointInServiceWaiter(control, func(w *sagemaker.EndpointInServiceWaiterOptions) { w.MinDelay, w.MaxDelay = time.Second, time.Second })
	described, err := waiter.WaitForOutput(ctx, &sagemaker.DescribeEndpointInput{EndpointName: &o.Name}, waitLimit)
	if err != nil {
		return nil, err
	}
	return described.EndpointStatus, nil
}

// unmake deletes an endpoint and returns the names of those that are left.
func unmake(ctx context.Context, control *sagemaker.Client, o order) (any, error) {
	if _, err := control.DeleteEndpoint(ctx, &sagemaker.DeleteEndpointInput{EndpointName: &o.Name}); err != nil {
		return nil, err
	}
	waiter := sagemaker.NewEndpointDeletedWaiter(control, func(w *sagemaker.EndpointDeletedWaiterOptions) { w.MinDelay, w.MaxDelay = time.Second, time.Second })
	if err := waiter.Wait(ctx, &sagemaker.DescribeEndpointInput{EndpointName: &o.Name}, waitLimit); err != nil {
		return nil, err
	}
	if _, err := control.DeleteEndpointConfig(ctx, &sagemaker.DeleteEndpointConfigInput{EndpointConfigName: &o.Name}); err != nil {
		return nil, err
	}
	listed, err := control.ListEndpoints(ctx, &sagemaker.ListEndpointsInput{NameContains: &o.Name})
	if err != nil {
		return nil, err
	}
	names := []string{}
	for _, endpoint := range listed.Endpoints {
		names = append(names, aws.ToString(endpoint.EndpointName))
	}
	return names, nil
}

// parts is a stream of the client, with what it has brought. Where a part ends has no meaning.
type parts struct {
	events *sagemakerruntime.InvokeEndpointWithResponseStreamEventStream
	kind   string
	body   []byte
}

func (p *parts) next() bool {
	for event := range p.events.Events() {
		if part, is := event.(*types.ResponseStreamMemberPayloadPart); is {
			p.body = append(p.body, part.Value.Bytes...)
			return true
		}
	}
	return false
}

func (p *parts) whole() (any, error) {
	return map[string]any{"type": p.kind, "body": string(p.body)}, p.events.Err()
}

func (p *parts) Close() error { return p.events.Close() }
