"""boto3's sagemaker: every call of the control plane, with its waiters and paginators."""

import json

import botocore.exceptions

from rig import Case, client, metric, order

ARNS = "arn:aws:sagemaker:us-east-1:000000000000:"
control = client("sagemaker")
unchecked = client("sagemaker", parameter_validation=False)
runtime = client("sagemaker-runtime")
SOON = {"Delay": 0.1, "MaxAttempts": 600}


def variant(name="one", pool="python-a", strategy=None, length=None, threshold=None):
    v = {"VariantName": name, "ModelName": pool, "InstanceType": "ml.p5.48xlarge", "InitialInstanceCount": 1, "InitialVariantWeight": 1}
    if strategy:
        v["RoutingConfig"] = {"RoutingStrategy": strategy}
    if length is not None:
        v["RoutingConfig"]["PrefixAwareRoutingConfig"] = {"PrefixLength": length, "ConcurrencyThreshold": threshold}
    return v


class ControlPlane(Case):
    def create(self, name, *variants):
        control.create_endpoint_config(EndpointConfigName=name, ProductionVariants=list(variants))
        control.create_endpoint(EndpointName=name, EndpointConfigName=name)
        control.get_waiter("endpoint_in_service").wait(EndpointName=name, WaiterConfig=SOON)
        self.addCleanup(self.delete, name)

    def delete(self, name):
        control.delete_endpoint(EndpointName=name)
        control.get_waiter("endpoint_deleted").wait(EndpointName=name, WaiterConfig=SOON)
        control.delete_endpoint_config(EndpointConfigName=name)

    def answering(self, endpoint):
        return runtime.invoke_endpoint(EndpointName=endpoint, Body=order())["InvokedProductionVariant"]

    def test_life(self):
        made = control.create_endpoint_config(EndpointConfigName="python-one", ProductionVariants=[variant("one", strategy="PREFIX_AWARE", length=4096, threshold=10)],
                                              Tags=[{"Key": "team", "Value": "blue"}])
        self.assertEqual(ARNS + "endpoint-config/python-one", made["EndpointConfigArn"])
        for strategy in ["RANDOM", "LEAST_OUTSTANDING_REQUESTS", "KV_AWARE"]:
            control.create_endpoint_config(EndpointConfigName="python-two", ProductionVariants=[variant("one", strategy=strategy), variant("two", "python-b")])
            described = control.describe_endpoint_config(EndpointConfigName="python-two")
            self.assertEqual(strategy, described["ProductionVariants"][0]["RoutingConfig"]["RoutingStrategy"])
            if strategy != "KV_AWARE":
                control.delete_endpoint_config(EndpointConfigName="python-two")
        described = control.describe_endpoint_config(EndpointConfigName="python-one")["ProductionVariants"][0]["RoutingConfig"]
        self.assertEqual({"RoutingStrategy": "PREFIX_AWARE", "PrefixAwareRoutingConfig": {"PrefixLength": 4096, "ConcurrencyThreshold": 10}}, described)
        self.assertEqual([{"Key": "team", "Value": "blue"}], control.list_tags(ResourceArn=made["EndpointConfigArn"])["Tags"])
        listed = control.list_endpoint_configs(NameContains="python-", SortBy="Name", SortOrder="Ascending")["EndpointConfigs"]
        self.assertIn("python-two", [c["EndpointConfigName"] for c in listed])

        arn = control.create_endpoint(EndpointName="python-endpoint", EndpointConfigName="python-one")["EndpointArn"]
        control.get_waiter("endpoint_in_service").wait(EndpointName="python-endpoint", WaiterConfig=SOON)
        endpoint = control.describe_endpoint(EndpointName="python-endpoint")
        self.assertEqual((arn, "InService", "python-one", 1), (endpoint["EndpointArn"], endpoint["EndpointStatus"], endpoint["EndpointConfigName"],
                                                            endpoint["ProductionVariants"][0]["CurrentInstanceCount"]))
        self.assertEqual("one", self.answering("python-endpoint"))
        control.add_tags(ResourceArn=arn, Tags=[{"Key": "team", "Value": "blue"}, {"Key": "cost", "Value": "7"}])
        control.delete_tags(ResourceArn=arn, TagKeys=["team"])
        self.assertEqual([{"Key": "cost", "Value": "7"}], control.list_tags(ResourceArn=arn)["Tags"])

        control.update_endpoint(EndpointName="python-endpoint", EndpointConfigName="python-two")
        control.get_waiter("endpoint_in_service").wait(EndpointName="python-endpoint", WaiterConfig=SOON)
        control.update_endpoint_weights_and_capacities(EndpointName="python-endpoint", DesiredWeightsAndCapacities=[
            {"VariantName": "one", "DesiredWeight": 0}, {"VariantName": "two", "DesiredWeight": 1, "DesiredInstanceCount": 3}])
        control.get_waiter("endpoint_in_service").wait(EndpointName="python-endpoint", WaiterConfig=SOON)
        weighed = control.describe_endpoint(EndpointName="python-endpoint")["ProductionVariants"]
        self.assertEqual([(0, 1), (1, 3)], [(v["CurrentWeight"], v["DesiredInstanceCount"]) for v in weighed])
        self.assertEqual({"two"}, {self.answering("python-endpoint") for _ in range(5)})

        control.delete_endpoint(EndpointName="python-endpoint")
        control.get_waiter("endpoint_deleted").wait(EndpointName="python-endpoint", WaiterConfig=SOON)
        self.refused("ValidationError", 400, lambda: self.answering("python-endpoint"), "Endpoint python-endpoint not found.")
        for name in ["python-one", "python-two"]:
            control.delete_endpoint_config(EndpointConfigName=name)

    def test_inference_components(self):
        control.create_endpoint_config(EndpointConfigName="python-made", ExecutionRoleArn="arn:aws:iam::123456789012:role/any",
                                       ProductionVariants=[{"VariantName": "main", "InstanceType": "ml.p5.48xlarge", "InitialInstanceCount": 1}])
        control.create_endpoint(EndpointName="python-made", EndpointConfigName="python-made")
        control.get_waiter("endpoint_in_service").wait(EndpointName="python-made", WaiterConfig=SOON)
        name = {"InferenceComponentName": "python-component"}

        def specification(pool):
            return {"ModelName": pool, "ComputeResourceRequirements": {"MinMemoryRequiredInMb": 1024, "NumberOfAcceleratorDevicesRequired": 1}}

        def in_service():
            self.eventually("it is in service", lambda: control.describe_inference_component(**name)["InferenceComponentStatus"] == "InService")

        def answering():
            return json.load(runtime.invoke_endpoint(EndpointName="python-made", Body=order(), **name)["Body"])["container"]
        arn = control.create_inference_component(**name, EndpointName="python-made", VariantName="main", Specification=specification("python-a"),
                                                 RuntimeConfig={"CopyCount": 1})["InferenceComponentArn"]
        self.assertEqual(ARNS + "inference-component/python-component", arn)
        in_service()
        self.assertEqual({"DesiredCopyCount": 1, "CurrentCopyCount": 1}, control.describe_inference_component(**name)["RuntimeConfig"])
        self.assertEqual("python-a", answering())
        listed = control.list_inference_components(EndpointNameEquals="python-made", StatusEquals="InService")["InferenceComponents"]
        self.assertEqual(["python-component"], [c["InferenceComponentName"] for c in listed])
        control.add_tags(ResourceArn=arn, Tags=[{"Key": "team", "Value": "blue"}])
        self.assertEqual([{"Key": "team", "Value": "blue"}], control.list_tags(ResourceArn=arn)["Tags"])
        control.update_inference_component_runtime_config(**name, DesiredRuntimeConfig={"CopyCount": 0})
        in_service()
        once = client("sagemaker-runtime", retries={"total_max_attempts": 1})
        self.refused("ServiceUnavailable", 503, lambda: once.invoke_endpoint(EndpointName="python-made", Body=order(), **name))
        control.update_inference_component(**name, Specification=specification("python-b"), RuntimeConfig={"CopyCount": 2})
        in_service()
        self.assertEqual("python-b", answering())
        self.refused("ValidationException", 400, lambda: control.delete_endpoint(EndpointName="python-made"), "Cannot delete endpoint with inference component associated.")
        control.delete_inference_component(**name)
        self.eventually("it is deleted", lambda: not control.list_inference_components(EndpointNameEquals="python-made")["InferenceComponents"])
        self.refused("ValidationException", 400, lambda: control.describe_inference_component(**name), "Could not find inference component ")
        self.delete("python-made")

    def test_shadow_variant(self):
        control.create_endpoint_config(EndpointConfigName="python-shadow", ProductionVariants=[variant()], ShadowProductionVariants=[variant("shadow", "python-b")])
        control.create_endpoint(EndpointName="python-shadow", EndpointConfigName="python-shadow")
        control.get_waiter("endpoint_in_service").wait(EndpointName="python-shadow", WaiterConfig=SOON)
        self.assertEqual(["shadow"], [v["VariantName"] for v in control.describe_endpoint(EndpointName="python-shadow")["ShadowProductionVariants"]])
        self.assertEqual({"one"}, {self.answering("python-shadow") for _ in range(10)})
        self.eventually("ten copies are counted", lambda: metric('warmpath_shadow_requests_total{endpoint="python-shadow",outcome="ok"') == 10)
        self.delete("python-shadow")

    def test_pages(self):
        for name in ["python-page-1", "python-page-2"]:
            self.create(name, variant())
        pages = control.get_paginator("list_endpoints").paginate(NameContains="python-page", SortBy="Name", SortOrder="Ascending", StatusEquals="InService",
                                                                 PaginationConfig={"PageSize": 1})
        self.assertEqual([["python-page-1"], ["python-page-2"]], [[e["EndpointName"] for e in page["Endpoints"]] for page in pages])

    def test_prefix_aware(self):
        self.create("python-prefix", variant(strategy="PREFIX_AWARE", length=1024, threshold=4))
        for more in [{}, {"PrefixAwareId": "tenant-1"}]:
            answer = runtime.invoke_endpoint_with_response_stream(EndpointName="python-prefix", Body=order("parts", parts=2, size=10), **more)
            self.assertEqual(20, sum(len(event["PayloadPart"]["Bytes"]) for event in answer["Body"]))

    def test_ranges_that_botocore_checks(self):
        with self.assertRaisesRegex(botocore.exceptions.ParamValidationError, "valid min value: 1024"):
            control.create_endpoint_config(EndpointConfigName="python-refused", ProductionVariants=[variant(strategy="PREFIX_AWARE", length=100, threshold=1)])

    def test_validation(self):
        at = "'productionVariants.1.member.routingConfig.prefixAwareRoutingConfig."
        must = "' failed to satisfy constraint: Member must have value "
        for name, refused, text in [
            ("too small", variant(strategy="PREFIX_AWARE", length=1023, threshold=0), f"2 validation errors detected: Value '1023' at {at}prefixLength{must}greater than or "
             f"equal to 1024; Value '0' at {at}concurrencyThreshold{must}greater than or equal to 1"),
            ("too large", variant(strategy="PREFIX_AWARE", length=65537, threshold=1025), f"2 validation errors detected: Value '65537' at {at}prefixLength{must}less than or "
             f"equal to 65536; Value '1025' at {at}concurrencyThreshold{must}less than or equal to 1024"),
            ("no such strategy", variant(strategy="NOPE"), "1 validation error detected: Value 'NOPE' at 'productionVariants.1.member.routingConfig.routingStrategy' "
             "failed to satisfy constraint: Member must satisfy enum value set: ["),
            ("no such pool", variant(pool="python-z"), f'Could not find model "{ARNS}model/python-z".'),
            ("no numbers", variant(strategy="PREFIX_AWARE"), ""),
            ("numbers of another strategy", variant(strategy="RANDOM", length=1024, threshold=1), ""),
        ]:
            with self.subTest(name):
                self.refused("ValidationException", 400, lambda: unchecked.create_endpoint_config(
                    EndpointConfigName="python-refused", ProductionVariants=[refused]), text)

    def test_names(self):
        self.refused("ValidationException", 400, lambda: control.describe_endpoint(EndpointName="python-none"), f'Could not find endpoint "{ARNS}endpoint/python-none".')
        self.refused("ValidationException", 400, lambda: control.create_endpoint(EndpointName="python-none", EndpointConfigName="python-none"),
                     f'Could not find endpoint configuration "{ARNS}endpoint-config/python-none".')
        control.create_endpoint_config(EndpointConfigName="python-waits", ProductionVariants=[variant(pool="empty")])
        self.refused("ValidationException", 400, lambda: control.create_endpoint_config(EndpointConfigName="python-waits", ProductionVariants=[variant()]),
                     "Cannot create already existing endpoint configuration ")
        control.create_endpoint(EndpointName="python-waits", EndpointConfigName="python-waits")
        for change in [lambda: control.delete_endpoint(EndpointName="python-waits"),
                       lambda: control.update_endpoint(EndpointName="python-waits", EndpointConfigName="python-waits")]:
            self.refused("ValidationException", 400, change, f'Cannot update in-progress endpoint "{ARNS}endpoint/python-waits"')
        self.refused("ValidationException", 400, lambda: control.create_endpoint(EndpointName="python", EndpointConfigName="python-waits"),
                     "Cannot create already existing endpoint ")
        with self.assertRaises(botocore.exceptions.WaiterError):
            control.get_waiter("endpoint_in_service").wait(EndpointName="python-none", WaiterConfig=SOON)

    def test_what_is_not_there(self):
        self.refused("UnknownOperationException", 400, lambda: control.create_model(ModelName="python", ExecutionRoleArn="arn:aws:iam::123456789012:role/r"))
        self.refused("ValidationException", 400, lambda: control.create_endpoint_config(
            EndpointConfigName="python-refused", ProductionVariants=[variant()], AsyncInferenceConfig={"OutputConfig": {"S3OutputPath": "s3://bucket/key"}}),
            "AsyncInferenceConfig is not supported by Warmpath: ")
