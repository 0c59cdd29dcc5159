"""Train a small classifier on made-up points."""

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

import outlast

torch.manual_seed(7)
points = torch.randn(4096, 20)
labels = (points[:, :10].square().sum(1) > points[:, 10:].square().sum(1)).long()
loader = DataLoader(TensorDataset(points, labels), batch_size=64, shuffle=True)
model = nn.Sequential(nn.Linear(20, 64), nn.ReLU(), nn.Dropout(0.1), nn.Linear(64, 2))
optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
job = outlast.Job(state={"model": model, "optimizer": optimizer})

for _epoch in job.epochs(30):
    for inputs, targets in job.batches(loader):
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(model(inputs), targets)
        loss.backward()
        optimizer.step()

model.eval()
accuracy = (model(points).argmax(1) == labels).float().mean().item()
print(f"accuracy {accuracy:.1%}")
torch.save(model.state_dict(), "model.pt")
