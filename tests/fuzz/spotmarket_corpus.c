/* Writes seeds for spotmarket_fuzz: one of each kind of call, broken headers, paths and faults. */
#include "tests/fuzz/corpus.h"

#define RUN "Action=RunInstances&ImageId=ami-1&InstanceType=m3.large&MinCount=1&MaxCount=2&ClientToken=t"
#define TPL "LaunchTemplateConfigs.1.LaunchTemplateSpecification.LaunchTemplateName=tpl"

static const char *const SEEDS[] = {
    "\x04" RUN "&InstanceMarketOptions.MarketType=spot&InstanceMarketOptions.SpotOptions.MaxPrice=0.06"
    "&UserData=IyEvYmluL3No&TagSpecification.1.ResourceType=instance&TagSpecification.1.Tag.1.Key=k"
    "&TagSpecification.1.Tag.1.Value=%3Cv%3E\n"
    "Action=DescribeInstances&Filter.1.Name=tag:k&Filter.1.Value.1=*&MaxResults=5\n"
    "Action=DescribeSpotInstanceRequests&Filter.1.Name=state&Filter.1.Value.1=active\n"
    "Action=DescribeTags",
    "\x04"
    "Action=RequestSpotInstances&SpotPrice=0.03&InstanceCount=2&Type=persistent&ValidUntil=2016-03-02T00:00:00Z"
    "&LaunchSpecification.ImageId=ami-1&LaunchSpecification.InstanceType=m3.large"
    "&LaunchSpecification.Placement.AvailabilityZone=us-east-1a&LaunchSpecification.SecurityGroupId.1=sg-1\n"
    "Action=DescribeSpotInstanceRequests\nAction=DescribeInstances",
    "\x04"
    "Action=DescribeSpotPriceHistory&InstanceType.1=m3.large&ProductDescription.1=Linux/UNIX"
    "&StartTime=2016-02-29T00:00:00Z&EndTime=2016-03-01T00:00:00Z&MaxResults=2&NextToken=page-2-1456790400",
    "\x04"
    "Action=CreateLaunchTemplate&LaunchTemplateName=tpl&LaunchTemplateData.ImageId=ami-1"
    "&LaunchTemplateData.InstanceType=c3.xlarge&LaunchTemplateData.KeyName=k\n"
    "Action=CreateLaunchTemplateVersion&LaunchTemplateName=tpl&LaunchTemplateData.ImageId=ami-2\n"
    "Action=CreateFleet&Type=instant&TargetCapacitySpecification.TotalTargetCapacity=3"
    "&TargetCapacitySpecification.OnDemandTargetCapacity=1&TargetCapacitySpecification.SpotTargetCapacity=2&" TPL
    "&LaunchTemplateConfigs.1.Overrides.1.InstanceType=m3.large&LaunchTemplateConfigs.1.Overrides.1.MaxPrice=0.01"
    "&LaunchTemplateConfigs.1.Overrides.2.WeightedCapacity=2&SpotOptions.AllocationStrategy=diversified"
    "&SpotOptions.MinTargetCapacity=1\n"
    "Action=DescribeLaunchTemplates\nAction=DeleteLaunchTemplate&LaunchTemplateName=tpl",
    "\x04"
    "Action=DescribeInstanceTypes&InstanceType.1=m3.large\nAction=DescribeAvailabilityZones&ZoneName.1=us-east-1a\n"
    "Action=TerminateInstances&InstanceId.1=i-0\nAction=CancelSpotInstanceRequests&SpotInstanceRequestId.1=sir-0\n"
    "Action=CreateTags&ResourceId.1=i-0&Tag.1.Key=a&Tag.1.Value=b",
    "\x05"
    "AWS4-HMAC-SHA256 Credential=AKID/20231114/us-east-1/ec2/aws4_request, SignedHeaders=host;x-amz-date, "
    "Signature=0000000000000000000000000000000000000000000000000000000000000000\n20231114T221320Z\nAction="
    "DescribeInstances",
    "\x06"
    "PUT\n@api/token\n60\n",
    "\x06"
    "GET\n@meta-data/spot/instance-action\n0000000000000000000000000000000000000000\n",
    "\x06"
    "POST\n/faults\n\n{\"spec\":\"slow=1:0.5,503=1\"}",
    "\x06"
    "GET\n/bill\n\n",
    "\x06"
    "GET\n/clock\n\n",
    "\x07"
    "slow=2s:0.3,503=0.1,clock=-30,lost=1,capacity=1",
};

int main(int argc, char **argv) {
    return corpus_main("spotmarket_corpus", argc, argv, SEEDS, sizeof SEEDS / sizeof *SEEDS);
}
