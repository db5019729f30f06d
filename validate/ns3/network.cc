// Flows through one bottleneck in ns-3: the same network as ns2/network.tcl and as our scenario.
//
//   network --flows=FILE [--name=value ...]
//
// FILE has a line per flow: start (s), base round-trip time (s), greedy | onoff. Prints "name value"
// lines about [from, until].

#include "ns3/applications-module.h"
#include "ns3/core-module.h"
#include "ns3/internet-module.h"
#include "ns3/network-module.h"
#include "ns3/point-to-point-module.h"
#include "ns3/traffic-control-module.h"

#include <cmath>
#include <fstream>
#include <iostream>
#include <memory>
#include <vector>

using namespace ns3;

namespace {

// A point-to-point device adds two bytes to every packet, so its rate is raised in proportion.
constexpr double FRAMING = 2;
constexpr uint32_t BUFFER = 1 << 22; // bytes at either end, so that only cwnd limits the rate

struct Options {
  std::string flows;
  std::string tcp = "ns3::TcpNewReno";
  std::string recovery = "ns3::TcpClassicRecovery";
  bool sack = true;
  bool ecn = false;
  uint32_t delayed = 2; // number of segments per ACK
  uint32_t payload = 1460;
  uint32_t initialWindow = 2;
  double minRto = 1;
  double rate = 100e6;
  double access = 1e9;
  double delay = 0.005;
  uint32_t buffer = 625000;
  std::string queue = "droptail";
  double redMin = 37500, redMax = 75000, redWeight = 0.002, redMaxP = 0.1;
  bool redHardDrop = false; // drop above max_p instead of marking
  double loss = 0;
  double burst = 300, pause = 1;
  double from = 0, until = 30;
  uint32_t seed = 1;
};

struct Counters {
  uint64_t delivered = 0, recoveries = 0, timeouts = 0, markResponses = 0;
  QueueDisc::Stats queue;
  double area = 0; // byte seconds in the queue
};

Counters total;
uint32_t inQueue = 0;
double inQueueSince = 0;

void QueueChanged(uint32_t, uint32_t now) {
  double t = Simulator::Now().GetSeconds();
  total.area += inQueue * (t - inQueueSince);
  inQueue = now;
  inQueueSince = t;
}

void StateChanged(TcpSocketState::TcpCongState_t, TcpSocketState::TcpCongState_t now) {
  total.recoveries += now == TcpSocketState::CA_RECOVERY;
  total.timeouts += now == TcpSocketState::CA_LOSS;
  total.markResponses += now == TcpSocketState::CA_CWR;
}

void Received(Ptr<const Packet> packet, const Address&) { total.delivered += packet->GetSize(); }

// Hands data to one connection, without end or in bursts. When a burst is acknowledged, a pause
// begins, and then the next burst.
class Source {
public:
  Source(Ptr<Node> node, InetSocketAddress to, bool greedy, const Options& options)
      : node(node), to(to), greedy(greedy), payload(options.payload) {
    packets->SetAttribute("Mean", DoubleValue(options.burst));
    pause->SetAttribute("Mean", DoubleValue(options.pause));
  }

  void Start() {
    socket = Socket::CreateSocket(node, TcpSocketFactory::GetTypeId());
    socket->TraceConnectWithoutContext("CongState", MakeCallback(&StateChanged));
    socket->SetSendCallback(MakeCallback(&Source::MaySend, this));
    socket->SetConnectCallback(MakeCallback(&Source::Connected, this), MakeNullCallback<void, Ptr<Socket>>());
    socket->Connect(to);
  }

private:
  void Connected(Ptr<Socket>) { Burst(); }

  void Burst() {
    left = greedy ? UINT64_MAX : uint64_t(std::ceil(packets->GetValue())) * payload;
    waiting = false;
    MaySend(socket, socket->GetTxAvailable());
  }

  void MaySend(Ptr<Socket>, uint32_t) {
    uint32_t room;
    while (left > 0 && (room = socket->GetTxAvailable()) >= payload) {
      uint32_t whole = room - room % payload;
      uint64_t size = std::min<uint64_t>(left, whole);
      if (socket->Send(Create<Packet>(size)) < 0) return;
      if (!greedy) left -= size;
    }
    if (left == 0 && !waiting && socket->GetTxAvailable() == BUFFER) {
      waiting = true;
      Simulator::Schedule(Seconds(pause->GetValue()), &Source::Burst, this);
    }
  }

  Ptr<Node> node;
  InetSocketAddress to;
  bool greedy;
  uint32_t payload;
  Ptr<Socket> socket;
  uint64_t left = 0;
  bool waiting = false;
  Ptr<ExponentialRandomVariable> packets = CreateObject<ExponentialRandomVariable>();
  Ptr<ExponentialRandomVariable> pause = CreateObject<ExponentialRandomVariable>();
};

void Configure(const Options& o) {
  uint32_t wire = o.payload + 40;
  Config::SetDefault("ns3::TcpL4Protocol::SocketType", TypeIdValue(TypeId::LookupByName(o.tcp)));
  Config::SetDefault("ns3::TcpL4Protocol::RecoveryType", TypeIdValue(TypeId::LookupByName(o.recovery)));
  Config::SetDefault("ns3::TcpSocketBase::Sack", BooleanValue(o.sack));
  Config::SetDefault("ns3::TcpSocketBase::Timestamp", BooleanValue(false));
  Config::SetDefault("ns3::TcpSocketBase::UseEcn", StringValue(o.ecn ? "On" : "Off"));
  Config::SetDefault("ns3::TcpSocketBase::MinRto", TimeValue(Seconds(o.minRto)));
  Config::SetDefault("ns3::TcpSocket::SegmentSize", UintegerValue(o.payload));
  Config::SetDefault("ns3::TcpSocket::InitialCwnd", UintegerValue(o.initialWindow));
  Config::SetDefault("ns3::TcpSocket::DelAckCount", UintegerValue(o.delayed));
  Config::SetDefault("ns3::TcpSocket::DelAckTimeout", TimeValue(MilliSeconds(100)));
  Config::SetDefault("ns3::TcpSocket::SndBufSize", UintegerValue(BUFFER));
  Config::SetDefault("ns3::TcpSocket::RcvBufSize", UintegerValue(BUFFER));
  Config::SetDefault("ns3::RedQueueDisc::MeanPktSize", UintegerValue(wire));
  Config::SetDefault("ns3::RedQueueDisc::MinTh", DoubleValue(o.redMin));
  Config::SetDefault("ns3::RedQueueDisc::MaxTh", DoubleValue(o.redMax));
  Config::SetDefault("ns3::RedQueueDisc::QW", DoubleValue(o.redWeight));
  Config::SetDefault("ns3::RedQueueDisc::LInterm", DoubleValue(1 / o.redMaxP));
  Config::SetDefault("ns3::RedQueueDisc::Gentle", BooleanValue(true));
  Config::SetDefault("ns3::RedQueueDisc::UseEcn", BooleanValue(o.ecn));
  Config::SetDefault("ns3::RedQueueDisc::UseHardDrop", BooleanValue(o.redHardDrop));
  Config::SetDefault("ns3::RedQueueDisc::LinkBandwidth", DataRateValue(DataRate(uint64_t(o.rate))));
}

// The rate at which packets of the usual size take the time that they would take without framing.
DataRate Framed(double rate, const Options& o) {
  double wire = o.payload + 40;
  return DataRate(uint64_t(rate * (wire + FRAMING) / wire));
}

void DefaultRoute(Ptr<Node> node, Ipv4Address next, uint32_t interface) {
  Ipv4StaticRoutingHelper().GetStaticRouting(node->GetObject<Ipv4>())->SetDefaultRoute(next, interface);
}

} // namespace

int main(int argc, char* argv[]) {
  Options o;
  CommandLine line(__FILE__);
  line.AddValue("flows", "a line per flow: start (s), base round-trip time (s), greedy | onoff", o.flows);
  line.AddValue("tcp", "congestion control", o.tcp);
  line.AddValue("recovery", "recovery", o.recovery);
  line.AddValue("sack", "selective acknowledgements", o.sack);
  line.AddValue("ecn", "senders and queue use ECN", o.ecn);
  line.AddValue("delayed", "segments per ACK", o.delayed);
  line.AddValue("payload", "bytes in a segment", o.payload);
  line.AddValue("initial_window", "segments", o.initialWindow);
  line.AddValue("min_rto", "s", o.minRto);
  line.AddValue("rate", "of the bottleneck, bit/s", o.rate);
  line.AddValue("access", "of the other links, bit/s", o.access);
  line.AddValue("delay", "of the bottleneck, s", o.delay);
  line.AddValue("buffer", "of the bottleneck, bytes", o.buffer);
  line.AddValue("queue", "droptail | red", o.queue);
  line.AddValue("red_min", "bytes", o.redMin);
  line.AddValue("red_max", "bytes", o.redMax);
  line.AddValue("red_weight", "of a sample in the average", o.redWeight);
  line.AddValue("red_max_p", "probability at red_max", o.redMaxP);
  line.AddValue("red_hard_drop", "drop above red_max", o.redHardDrop);
  line.AddValue("loss", "probability, on the bottleneck", o.loss);
  line.AddValue("burst", "mean packets", o.burst);
  line.AddValue("pause", "mean s", o.pause);
  line.AddValue("from", "s", o.from);
  line.AddValue("until", "s", o.until);
  line.AddValue("seed", "", o.seed);
  line.Parse(argc, argv);
  RngSeedManager::SetSeed(o.seed);
  Configure(o);

  InternetStackHelper internet;
  Ipv4AddressHelper addresses("10.0.0.0", "255.255.255.252");
  TrafficControlHelper noQueue;
  auto connect = [&](Ptr<Node> a, Ptr<Node> b, double rate, double delay, const char* room) {
    PointToPointHelper link;
    link.SetQueue("ns3::DropTailQueue", "MaxSize", StringValue(room));
    link.SetDeviceAttribute("DataRate", DataRateValue(Framed(rate, o)));
    link.SetChannelAttribute("Delay", TimeValue(Seconds(delay)));
    return link.Install(a, b);
  };
  auto number = [&](NetDeviceContainer devices) {
    Ipv4InterfaceContainer interfaces = addresses.Assign(devices);
    addresses.NewNetwork();
    return interfaces;
  };

  Ptr<Node> near = CreateObject<Node>(), far = CreateObject<Node>();
  internet.Install(NodeContainer(near, far));
  // Packets wait in the queue discipline. The device itself holds one packet besides the one that it sends.
  NetDeviceContainer bottleneck = connect(near, far, o.rate, o.delay, "1p");
  TrafficControlHelper discipline;
  uint32_t limit = o.buffer - (o.payload + 40);
  discipline.SetRootQueueDisc(o.queue == "red" ? "ns3::RedQueueDisc" : "ns3::FifoQueueDisc", "MaxSize",
                              QueueSizeValue(QueueSize(QueueSizeUnit::BYTES, limit)));
  Ptr<QueueDisc> queue = discipline.Install(bottleneck.Get(0)).Get(0);
  TrafficControlHelper fifo;
  fifo.SetRootQueueDisc("ns3::FifoQueueDisc");
  fifo.Install(bottleneck.Get(1));
  queue->TraceConnectWithoutContext("BytesInQueue", MakeCallback(&QueueChanged));
  Ipv4InterfaceContainer middle = number(bottleneck);
  DefaultRoute(near, middle.GetAddress(1), middle.Get(0).second);
  DefaultRoute(far, middle.GetAddress(0), middle.Get(1).second);
  if (o.loss > 0) {
    bottleneck.Get(1)->SetAttribute(
        "ReceiveErrorModel",
        PointerValue(CreateObjectWithAttributes<RateErrorModel>("ErrorUnit", StringValue("ERROR_UNIT_PACKET"),
                                                               "ErrorRate", DoubleValue(o.loss))));
  }

  std::vector<std::unique_ptr<Source>> sources;
  std::ifstream file(o.flows);
  double start, rtt;
  std::string kind;
  while (file >> start >> rtt >> kind) {
    double leg = (rtt / 2 - o.delay) / 2;
    Ptr<Node> from = CreateObject<Node>(), to = CreateObject<Node>();
    internet.Install(NodeContainer(from, to));
    NetDeviceContainer left = connect(from, near, o.access, leg, "100000p");
    NetDeviceContainer right = connect(far, to, o.access, leg, "100000p");
    Ipv4InterfaceContainer l = number(left), r = number(right);
    noQueue.Uninstall(left);
    noQueue.Uninstall(right);
    DefaultRoute(from, l.GetAddress(1), l.Get(0).second);
    DefaultRoute(to, r.GetAddress(0), r.Get(1).second);
    PacketSinkHelper sink("ns3::TcpSocketFactory", InetSocketAddress(Ipv4Address::GetAny(), 9));
    sink.Install(to).Get(0)->TraceConnectWithoutContext("Rx", MakeCallback(&Received));
    sources.push_back(
        std::make_unique<Source>(from, InetSocketAddress(r.GetAddress(1), 9), kind == "greedy", o));
    Simulator::Schedule(Seconds(start), &Source::Start, sources.back().get());
  }

  Counters before;
  auto count = [&] {
    QueueChanged(inQueue, inQueue);
    total.queue = queue->GetStats();
    return total;
  };
  Simulator::Schedule(Seconds(o.from), [&] { before = count(); });
  Simulator::Stop(Seconds(o.until));
  Simulator::Run();
  Counters after = count();

  double seconds = o.until - o.from;
  auto say = [](const char* name, auto value) { std::cout << name << " " << +value << "\n"; };
  say("arrivals", after.queue.nTotalReceivedPackets - before.queue.nTotalReceivedPackets);
  say("packets", after.queue.nTotalDequeuedPackets - before.queue.nTotalDequeuedPackets);
  say("drops", after.queue.nTotalDroppedPackets - before.queue.nTotalDroppedPackets);
  say("marks", after.queue.nTotalMarkedPackets - before.queue.nTotalMarkedPackets);
  say("timeouts", after.timeouts - before.timeouts);
  say("recoveries", after.recoveries - before.recoveries);
  say("mark_responses", after.markResponses - before.markResponses);
  say("goodput", (after.delivered - before.delivered) * 8 / seconds);
  say("throughput", (after.queue.nTotalDequeuedBytes - before.queue.nTotalDequeuedBytes) * 8 / seconds);
  say("queue", (after.area - before.area) / seconds);
  std::cout.flush();
  _Exit(0); // destroying thousands of objects takes longer than some runs
}
